"""Deployed skills: files, loading, and when a skill ends in a chain."""
