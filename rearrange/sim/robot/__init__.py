"""Fetch's parameters, and its depth camera."""
