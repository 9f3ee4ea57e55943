"""Rules that say in every state what to do next, to learn from."""
