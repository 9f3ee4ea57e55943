"""How fast and how robust: benchmarks beside the alternatives, in one run."""
