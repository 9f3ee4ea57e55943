"""Trainings that are broken on purpose, and what must happen then."""
