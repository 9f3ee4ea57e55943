"""Trainings that run for long, undisturbed or killed again and again."""
