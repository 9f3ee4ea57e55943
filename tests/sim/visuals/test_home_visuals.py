"""What is put on for pictures fits, and leaves the simulation as it was."""

import logging

import mujoco
import numpy as np
import pytest

from rearrange.sim.home.objects import KINDS, YCB_KINDS
from rearrange.sim.pictures.pictures import FreeCamera, Painter
from rearrange.sim.pictures.triangles import Solids, Visuals
from rearrange.sim.robot import fetch
from rearrange.sim.robot.depth import DepthCamera
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.sim.simulation import Simulation
from rearrange.sim.visuals import robot
from rearrange.sim.visuals.home_visuals import build_visuals
from rearrange.sim.visuals.robot import MISSING

STANDS_OUT = 0.035  # m: a handle, a bend, a stalk
GOAL = (2.5, 3.5, 0.9)


@pytest.fixture(scope="module")
def sim():
    sim = Simulation()
    objects = [
        ObjectPlacement(kind, (4.0 + 0.2 * i, 3.2, KINDS[kind].half_height), (1, 0, 0, 0))
        for i, kind in enumerate(YCB_KINDS)
    ]
    sim.reset(Scene("v3_sc3_staging_03", tuple(objects), (5.0, 4.2, 0.0), tuple(fetch.ARM_START)))
    return sim


@pytest.fixture(scope="module")
def home_visuals(sim):
    return build_visuals(sim, {0: GOAL})


def bounds(home_visuals, sim, parts):
    """Lowest and highest corner of parts in the world, [2, 3]."""
    home_visuals.visuals.solids.place(sim.data)
    boxes = home_visuals.visuals.solids.boxes()[parts]
    return np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])


def test_dressing_and_painting_change_nothing_that_is_stepped_or_seen_by_the_robot(
    sim, home_visuals
):
    size = mujoco.mj_sizeModel(sim.model)
    before, after = np.empty(size, np.uint8), np.empty(size, np.uint8)
    depth = DepthCamera(sim.model).render(sim.data)
    mujoco.mj_saveModel(sim.model, None, before)
    fresh = build_visuals(sim, {0: GOAL})
    Painter(sim.model, 32, 24, visuals=fresh.visuals).render(sim.data, FreeCamera((5, 4, 1)))
    mujoco.mj_saveModel(sim.model, None, after)
    assert np.array_equal(before, after)
    assert np.array_equal(depth, DepthCamera(sim.model).render(sim.data))


@pytest.mark.parametrize("kind", YCB_KINDS)
def test_every_thing_looks_as_large_as_what_collides(sim, home_visuals, kind):
    index = YCB_KINDS.index(kind)
    low, high = bounds(home_visuals, sim, home_visuals.objects[index]) - sim.object_pos_w(index)
    aabb = sim.model.geom_aabb[sim.object_geom(index), 3:]
    assert (high < aabb + STANDS_OUT).all() and (-low < aabb + STANDS_OUT).all()
    assert low[2] == pytest.approx(-aabb[2], abs=0.004)  # it stands on what it stands on
    assert (high - low > 1.5 * aabb).all()  # and fills most of it


def test_the_arm_hangs_together_however_it_is_bent(sim, home_visuals):
    solids = home_visuals.visuals.solids
    links = ["base_link", *(f"{joint.name}_link" for joint in fetch.ARM_JOINTS), "gripper_link"]
    for arm in (fetch.ARM_START, np.array([1.2, 0.9, -2.0, 1.5, 1.0, -1.4, 2.0])):
        sim.set_robot((5.0, 4.2, 0.0), arm)
        solids.place(sim.data)
        points = [
            solids.points[np.isin(np.repeat(solids.bodies, np.diff(solids.firsts)), body)]
            for body in (sim.model.body(name).id for name in links)
        ]
        for one, other, name in zip(points, points[1:], links[1:], strict=False):
            joint = sim.data.xpos[sim.model.body(name).id]
            one, other = (part[np.linalg.norm(part - joint, axis=1) < 0.2] for part in (one, other))
            assert np.linalg.norm(one[:, None] - other[None, ::3], axis=2).min() < 0.015
    sim.set_robot((5.0, 4.2, 0.0), fetch.ARM_START)


def test_the_suction_tip_ends_where_the_hand_touches(sim, home_visuals):
    solids = home_visuals.visuals.solids
    solids.place(sim.data)
    hand = sim.model.body("gripper_link").id
    points = np.concatenate(
        [
            solids.points[solids.firsts[part] : solids.firsts[part + 1]]
            for part in np.flatnonzero(solids.bodies == hand)
        ]
    )
    ahead = (points - sim.ee_pos_w) @ sim.ee_rot_w[:, 0]
    assert ahead.max() == pytest.approx(0.0, abs=1e-3)


def test_a_ghost_stands_at_the_goal_and_nowhere_else(sim, home_visuals):
    low, high = bounds(home_visuals, sim, home_visuals.ghosts[0])
    assert (low + high) / 2 == pytest.approx(np.array(GOAL), abs=0.005)
    assert list(home_visuals.ghosts) == [0]


def test_without_the_meshes_the_robot_is_plain_and_one_line_says_so(sim, monkeypatch, caplog):
    monkeypatch.setattr(robot, "find_spec", lambda name: None)
    with caplog.at_level(logging.WARNING):
        bare = build_visuals(sim)
    assert [record.getMessage() for record in caplog.records] == [MISSING]
    base = sim.model.body("base_link").id
    geoms = np.flatnonzero(sim.model.body_rootid[sim.model.geom_bodyid] == base)
    assert not np.isin(geoms, bare.visuals.replaced).any()


def test_visuals_may_be_nothing(sim):
    plain = Painter(sim.model, 32, 24).render(sim.data, FreeCamera((5, 4, 1)))
    bare = Painter(sim.model, 32, 24, visuals=Visuals(Solids((), ()), ()))
    assert np.array_equal(plain, bare.render(sim.data, FreeCamera((5, 4, 1))))
