"""Evaluation: metrics, videos, reports, benchmarks."""
