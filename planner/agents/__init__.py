"""Agents: what carries out a plan, with which skills and which knowledge."""
