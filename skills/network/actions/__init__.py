"""From features to actions: heads, distributions, mixtures."""
