"""Long-lived runs: checkpoints, snapshots, metrics, progress."""
