"""How arm and base move: kinematics, collision, paths, driving."""
