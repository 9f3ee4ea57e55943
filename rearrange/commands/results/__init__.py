"""What trainings and evaluations have left, drawn and compared."""
