"""Teachers: rules that give the next action in any state, for imitation."""
