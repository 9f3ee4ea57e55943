"""A home as numbers: furniture, objects, the floor plan."""
