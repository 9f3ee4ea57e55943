"""Which homes there are: HAB's apartments, procedural homes, and those of files."""
