"""An arm that goes right through furniture is noticed, though MuJoCo reports no contact."""

import mujoco
import numpy as np
import pytest

from rearrange.sim.model import HOUSE, ROBOT
from rearrange.tasks.episodes.piercing import arm_pierces

WALL = f'<geom name="wall" type="box" size="0.32 0.02 0.89" contype="{HOUSE}" conaffinity="0"/>'


def world(pos, angles, wall=WALL) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """A wall of 4 cm and a capsule of the arm, [3] m and [3] degrees."""
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody>{wall}<body pos="{" ".join(map(str, pos))}"
        euler="{" ".join(map(str, angles))}"><freejoint/>
        <geom name="arm" type="capsule" size="0.06 0.1" contype="{ROBOT}" conaffinity="{HOUSE}"/>
        </body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def test_an_axis_across_a_thin_wall_is_noticed():
    assert arm_pierces(*world((0.1, 0.0, 0.4), (90.0, 0.0, 0.0)))
    assert arm_pierces(*world((0.1, 0.05, 0.4), (60.0, 0.0, 0.0)))
    assert not arm_pierces(*world((0.1, 0.2, 0.4), (90.0, 0.0, 0.0)))  # before it
    assert not arm_pierces(*world((0.1, 0.05, 0.4), (0.0, 0.0, 0.0)))  # along it
    assert not arm_pierces(*world((0.4, 0.0, 0.4), (90.0, 0.0, 0.0)))  # past its end


def test_what_the_arm_does_not_collide_with_does_not_count():
    unseen = WALL.replace(f'contype="{HOUSE}"', 'contype="0"')
    assert not arm_pierces(*world((0.1, 0.0, 0.4), (90.0, 0.0, 0.0), unseen))


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_points_along_the_axis(seed):
    rng = np.random.default_rng(seed)
    model, data = world(rng.uniform(-0.35, 0.35, 3) * (1.0, 0.4, 1.0), rng.uniform(0, 180, 3))
    axis = data.geom("arm").xmat.reshape(3, 3)[:, 2]
    points = data.geom("arm").xpos + np.linspace(-0.1, 0.1, 4001)[:, None] * axis
    is_in = (np.abs(points) < model.geom("wall").size).all(axis=1).any()
    assert arm_pierces(model, data) == is_in
