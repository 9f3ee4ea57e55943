"""Episodes: generating, writing, reading and checking them."""
