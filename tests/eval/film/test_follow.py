"""The camera of a film sees the robot, whatever stands around it."""

import numpy as np
import pytest

from rearrange.eval.film.follow import FollowCamera, _stands_between
from rearrange.sim.pictures.pictures import Painter
from rearrange.sim.robot import fetch
from rearrange.sim.scene import Scene
from rearrange.sim.simulation import Simulation
from rearrange.sim.visuals.home_visuals import build_visuals

BEHIND_FRIDGE = (5.3, 1.2, np.pi / 2)  # of v3_sc3: fridge at (5.35, 0.34), its back to the south


@pytest.fixture(scope="module")
def sim():
    sim = Simulation()
    sim.reset(Scene("v3_sc3_staging_03", (), BEHIND_FRIDGE, tuple(fetch.ARM_START)))
    return sim


def robot_pixels(sim, home_visuals, camera) -> np.ndarray:
    """Where the robot is seen: what changes when it is left out."""
    visuals, seen = home_visuals.visuals, []
    robot = np.flatnonzero(sim.model.body_rootid == sim.model.body("base_link").id)
    parts = np.isin(visuals.solids.bodies, robot)
    for share in (1.0, 0.0):
        visuals.alphas[parts] = share
        seen.append(
            Painter(sim.model, 96, 54, visuals=visuals).render(sim.data, camera).astype(int)
        )
    visuals.alphas[parts] = 1.0
    return np.abs(seen[0] - seen[1]).sum(axis=2) > 60


@pytest.mark.parametrize("yaw", [0.0, np.pi / 2, np.pi, -np.pi / 2])
def test_the_robot_is_seen_whichever_way_it_stands(sim, yaw):
    sim.set_robot((*BEHIND_FRIDGE[:2], yaw), fetch.ARM_START)
    home_visuals = build_visuals(sim)
    follow = FollowCamera(sim, home_visuals, 0.1)
    for _ in range(40):
        camera = follow.step()
    assert robot_pixels(sim, home_visuals, camera).mean() > 0.06


def test_what_stands_beside_the_line_of_sight_is_not_in_between():
    eye, target = np.array([0.0, 0.0, 1.0]), np.array([[4.0, 0.0, 1.0]])
    wall = np.array([[[1.9, -1.0, 0.0], [2.1, 1.0, 2.0]]])
    assert _stands_between(wall, eye, target)
    assert not _stands_between(wall + [0.0, 1.5, 0.0], eye, target)
    assert not _stands_between(wall + [1.9, 0.0, 0.0], eye, target)  # at the target itself
    assert not _stands_between(wall + [-3.0, 0.0, 0.0], eye, target)  # behind the eye
