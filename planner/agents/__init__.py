"""Agents: who carries a plan out, with which skills, knowing what."""
