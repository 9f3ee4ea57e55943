"""Agents: they carry out plans, with different skills and knowledge."""
