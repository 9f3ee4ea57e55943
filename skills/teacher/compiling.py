"""Compiles the home's numba kernels once, before many processes would do so.

    train-skill --> compile_home, compile_teacher --> the cache on the disk --> worker processes

Otherwise all workers of a fresh installation would compile at the same time, partly in the middle
of an episode, and on a small machine would be mistaken for hung ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.robot import Robot
from rearrange.skills.teacher.rules import teacher_for
from rearrange.tasks.gym_factory import make_gym

if TYPE_CHECKING:
    from rearrange.tasks.env import RearrangeEnv


def compile_home(env_id: str, kwargs: dict[str, Any] | None = None) -> None:
    """Lets one environment take a few steps. Raises UserError as `make_gym`.

    Args:
        kwargs: of the environments to come; they determine which sensors are read.
    """
    env = make_gym(0, env_id, 1, kwargs)
    try:
        env.reset(seed=0)
        shape = env.action_space.shape
        assert shape is not None
        for _ in range(3):
            env.step(np.zeros(shape, np.float32))
        _ask_the_way(cast("RearrangeEnv", env.unwrapped).sim)
    finally:
        env.close()


def compile_teacher(env_id: str, num_steps: int = 150) -> None:
    """Lets the teacher act at the start of an episode. `compile_home` compiles the floor plan."""
    env = make_gym(0, env_id, 1, {"depth": False})
    env.reset(seed=0)
    world = cast("RearrangeEnv", env.unwrapped)
    assert world.episode is not None
    teacher = teacher_for(Robot(world.sim), world.episode)
    for _ in range(num_steps):
        if any(env.step(np.clip(teacher.act(), -1.0, 1.0))[2:4]):
            break
    env.close()


def _ask_the_way(sim: Simulation) -> None:
    """Calls all kernels of a floor plan; the first episode's teacher may not need them."""
    plan = sim.floor_plan()
    if plan.largest < 0:
        return
    here = np.array(sim.base_pose[:2])
    plan.clearance_at(*here)
    plan.snap(*plan.bounds[:2])  # at a wall, where the base does not fit
    there = plan.random_free_point(np.random.default_rng(0))
    plan.geodesic_distance(here, there)
    plan.shortest_path(here, there)
