"""What the robot can do: policy networks, motion planning, oracle, teacher, deployment."""
