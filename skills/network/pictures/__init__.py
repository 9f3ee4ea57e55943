"""Image encoders for the head camera."""
