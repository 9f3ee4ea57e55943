"""The home as a planning problem: facts, problems, and plan steps as skill calls."""
