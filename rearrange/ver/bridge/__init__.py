"""Environments in another Python: how its workers start, and what they run."""
