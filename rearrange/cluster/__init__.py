"""How a training or an evaluation runs: in one process, several, or on a cluster."""
