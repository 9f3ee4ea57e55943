"""Domain-independent planning: PDDL, grounding, search, validation."""
