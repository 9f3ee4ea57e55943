"""What to do next: PDDL parsing, grounding, search, validation, and the agent that chains skills."""
