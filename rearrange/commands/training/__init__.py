"""The verbs that train: one skill, any environment, many at once, and the skill's file."""
