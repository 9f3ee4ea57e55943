"""How a training or an evaluation is run: in one process, in several, over a cluster."""
