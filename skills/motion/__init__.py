"""Motion of arm and base: kinematics, collision, paths, driving."""
