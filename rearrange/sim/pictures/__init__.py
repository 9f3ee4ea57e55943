"""Pictures of the home for people."""
