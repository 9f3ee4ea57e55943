"""Skills planned on the simulator's state: proof that episodes can be solved."""
