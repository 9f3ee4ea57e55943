"""The effect of staggered resets on learning, on the toy problem of their paper."""
