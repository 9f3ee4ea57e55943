"""The available homes: HAB's apartments, procedural homes, and homes from files."""
