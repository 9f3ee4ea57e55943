"""What staggered resets do to learning, on the toy of their paper."""
