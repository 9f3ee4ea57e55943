"""Ranks: communication between processes that learn together, and preemption."""
