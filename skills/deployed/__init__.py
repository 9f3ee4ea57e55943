"""Trained skills at work: files, loading, what ends them in a chain."""
