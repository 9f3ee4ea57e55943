"""What the robot can do: arm kinematics, motion planning, oracle skills."""
