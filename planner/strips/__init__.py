"""Planning as such: PDDL, grounding, search, validation. No home in here."""
