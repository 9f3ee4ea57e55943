"""`train-skills`: all stages of each skill, from scratch, with files and a report."""
