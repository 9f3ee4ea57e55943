"""How a training or an evaluation runs: in one process, in several, or on a cluster."""
