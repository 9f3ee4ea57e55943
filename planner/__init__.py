"""Task planning: PDDL parsing, grounding, search, validation, and agents that chain skills."""
