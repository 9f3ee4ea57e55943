"""Many trainings that answer one question."""
