"""Steps per second of every mode of the trainer."""
