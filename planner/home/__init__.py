"""The home as a planning problem: facts, problems, a plan's calls."""
