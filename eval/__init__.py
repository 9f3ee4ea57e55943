"""How well it goes: evaluation, metrics, videos, reports, benchmarks."""
