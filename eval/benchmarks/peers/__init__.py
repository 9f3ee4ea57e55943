"""Other trainers on the same tasks."""
