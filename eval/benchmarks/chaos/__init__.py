"""Trainings that are broken on purpose, and what must come of it."""
