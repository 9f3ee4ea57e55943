"""Plots and comparisons of finished trainings and evaluations."""
