"""What the programs of the arm and the base see of the home."""

import numpy as np
import pytest

from rearrange.skills.motion.collision import BOX, NO_OBSTACLES
from rearrange.skills.motion.robot import Robot, near
from rearrange.tasks.registry import make_env


@pytest.mark.parametrize("task", ["pick", "open_fridge"])
def test_what_is_near_is_seen_from_the_base_as_all_is(task):
    env = make_env(task, split="val", seed=0, depth=False)
    env.reset(options={"index": 0})
    world = Robot(env.unwrapped.sim).world_obstacles()
    bounds = np.where(
        world.kind == BOX, np.linalg.norm(world.size, axis=1), world.size[:, :2].sum(axis=1)
    )
    rng = np.random.default_rng(0)
    for base in rng.uniform((-4.0, -4.0, -7.0), (4.0, 4.0, 7.0), (50, 3)):
        seen, everything = near(world, base), world.in_base(tuple(base))
        is_near = np.hypot(*(everything.pos[:, :2]).T) < 1.9 + bounds
        assert 0 < is_near.sum() < len(world)
        for name in ("kind", "pos", "rot", "size"):
            ours, of_all = getattr(seen, name), getattr(everything, name)[is_near]
            assert ours.dtype == of_all.dtype
            np.testing.assert_allclose(ours, of_all, rtol=0.0, atol=1e-14)


def test_a_world_without_obstacles_has_none_near():
    assert len(near(NO_OBSTACLES, (1.0, 2.0, 3.0))) == 0
