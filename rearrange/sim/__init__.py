"""The simulated home: physics, robot, sensors, floor plan. Knows no task."""

from rearrange.sim import kernel_cache

kernel_cache.install()
