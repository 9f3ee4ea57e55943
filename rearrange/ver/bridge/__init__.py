"""Environments in another Python: how its workers are started, and what runs in them."""
