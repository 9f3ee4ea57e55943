"""Ranks: what processes that learn together exchange, and when they stop waiting."""
