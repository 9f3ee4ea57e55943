"""Demonstrations: what agents saw, did and got, as data sets that other programs learn from."""
