"""Long trainings, undisturbed or killed again and again."""
