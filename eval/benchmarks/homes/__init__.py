"""What a step of the home costs."""
