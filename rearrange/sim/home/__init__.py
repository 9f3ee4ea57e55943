"""The home as numbers: furniture, objects, apartments, the floor plan."""
