"""`rearrange view`: a page to play, watch and replay episodes on, and what stands behind it."""
