"""A home as data: furniture, objects, the floor plan."""
