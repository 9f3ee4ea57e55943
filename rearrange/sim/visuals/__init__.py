"""Visuals for people: meshes and textures over the plain shapes of the simulation."""
