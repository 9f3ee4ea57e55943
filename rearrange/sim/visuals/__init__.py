"""How things look to people: meshes and textures over the plain shapes that the simulation has."""
