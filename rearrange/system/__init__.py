"""Foundations for all packages: atomic files, checked JSON, locks, signals, hardware."""
