"""The simulated home: physics, robot, sensors, floor plan. It knows no tasks."""

from rearrange.sim import kernel_cache

kernel_cache.install()
