"""Demonstrations: observations, actions and rewards of agents as datasets for other programs."""
