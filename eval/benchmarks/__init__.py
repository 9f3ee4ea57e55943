"""Speed and robustness benchmarks; alternatives are measured in the same run."""
