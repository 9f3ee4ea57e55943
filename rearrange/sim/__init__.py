"""The simulated home: physics, robot, sensors, floor plan. Knows no task."""
