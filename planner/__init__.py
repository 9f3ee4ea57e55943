"""What to do next: PDDL parsing, grounding, search, validation, the agent that chains skills."""
