"""The training verbs: one skill, any environment, many at once, and export."""
