"""A training that lasts: checkpoints, snapshots, metrics, progress."""
