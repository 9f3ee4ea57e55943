"""Oracle skills, planned on the simulator's state: they show that episodes can be solved."""
