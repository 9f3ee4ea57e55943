"""Importing this registers nothing."""
