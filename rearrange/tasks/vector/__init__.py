"""Many homes in one process, stepped as one environment."""
