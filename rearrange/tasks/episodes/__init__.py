"""Episodes: made on the spot, written, read and checked."""
