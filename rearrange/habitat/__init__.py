"""Homes, robot and episodes as Habitat's files, and Habitat's episodes as ours, without it."""
