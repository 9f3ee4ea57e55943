"""From ready environments to full rollouts: collector, batches, storage."""
