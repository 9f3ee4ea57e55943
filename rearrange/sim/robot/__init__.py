"""Fetch in numbers, and its depth camera."""
