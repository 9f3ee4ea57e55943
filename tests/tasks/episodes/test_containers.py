"""Drawers and fridge hold clutter as in HAB, and still open and close at the robot's speed."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from rearrange.sim.home import furniture as fur
from rearrange.sim.homes.layout import make_layout
from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.draft import CLUTTERED_DRAWERS, FRIDGE_DOOR
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.rules.predicates import contained

COUNT = 12
JOINTS = (*CLUTTERED_DRAWERS, FRIDGE_DOOR)
# From 1 m/s to rest by friction of 0.7: v^2 / (2 mu g) = 7 cm; some are pushed by what rolls.
SLIP = 0.12  # m
OPEN = dict.fromkeys(CLUTTERED_DRAWERS, 0.45) | {FRIDGE_DOOR: 1.5}  # m, rad


@pytest.fixture(scope="module")
def sim():
    return Simulation()


def episodes(task, homes="hab"):
    return [generate_episode(task, "val", 2, index, homes=homes) for index in range(COUNT)]


def held_by(sim, joint):
    """Objects in a drawer or the fridge, by `contained`."""
    return {index for index in range(sim.num_objects) if contained(sim, index, joint)}


def clutter_inside(sim, spec):
    """How many objects that are no targets each container holds."""
    sim.reset(spec.scene)
    targets = {target.object for target in spec.targets}
    everything = {joint: held_by(sim, joint) for joint in fur.ARTICULATED_JOINTS}
    return {joint: len(found - targets) for joint, found in everything.items()}


@pytest.mark.parametrize("homes", ["hab", "procedural"])
@pytest.mark.parametrize(
    ("task", "containers"),
    [
        ("tidy_house", ()),
        ("prepare_groceries", (FRIDGE_DOOR,)),
        ("set_table", (FRIDGE_DOOR,)),
        ("rearrange_easy", JOINTS),
        ("navigate", JOINTS),
        ("pick", JOINTS),
        ("open_drawer", JOINTS),
        ("close_fridge", JOINTS),
    ],
)
def test_clutter_lies_in_the_containers_that_habs_generator_fills(sim, task, containers, homes):
    """hab-spec 2.5; the same share for each receptacle, as far as what is drawn fits in."""
    counts = [clutter_inside(sim, spec) for spec in episodes(task, homes)]
    for joint in fur.ARTICULATED_JOINTS:
        mean = np.mean([count[joint] for count in counts])
        assert (mean > 0.3) if joint in containers else (mean == 0.0), joint


def drive(sim, joint, opening):
    """Moves a drawer at 1 m/s, the door's handle as fast, with 150 N at most, then waits 0.5 s.

    Returns:
        where it got to, m or rad.
    """
    data, dof = sim.data, int(sim.model.joint(joint).dofadr[0])
    lever = 1.0 if joint in fur.DRAWERS else fur.FRIDGE_HANDLE_R
    way = np.sign(opening - sim.joint_position(joint))
    for _ in range(300):  # 2.5 s
        push = 300.0 * lever**2 * (way / lever - data.qvel[dof])
        data.qfrc_applied[dof] = np.clip(push, -150.0 * lever, 150.0 * lever)
        mujoco.mj_step(sim.model, data)
        if way * (sim.joint_position(joint) - opening) > -0.01:
            break
    reached = sim.joint_position(joint)
    data.qfrc_applied[dof] = 0.0
    for _ in range(60):
        mujoco.mj_step(sim.model, data)
    return reached


@pytest.mark.parametrize("homes", ["hab", "procedural"])
@pytest.mark.parametrize("task", ["set_table", "open_fridge", "pick"])
def test_nothing_jams_a_container_or_falls_out_of_it(sim, task, homes):
    tried = 0
    for spec in episodes(task, homes):
        layout = make_layout(spec.scene.layout_id)
        scene = replace(spec.scene, base=(layout.bounds[2] + 5.0, 0.0, 0.0),
                        arm=tuple(fetch.ARM_START), joints={})  # fmt: skip
        if spec.scene.joints.keys() & set(fur.DRAWERS):
            continue  # what is in it lies where the open drawer is
        for joint in JOINTS:
            sim.reset(scene)
            inside = held_by(sim, joint)
            if not inside:
                continue
            tried += 1
            stood = {index: sim.object_pos_w(index) for index in inside}
            assert drive(sim, joint, OPEN[joint]) == pytest.approx(OPEN[joint], abs=0.03)
            if joint in fur.DRAWERS:
                way = np.array(sim.data.joint(joint).xaxis) * sim.joint_position(joint)
                for index in inside:
                    moved = sim.object_pos_w(index) - stood[index]
                    is_round = sim.object_kind(index).shape == "sphere"
                    assert is_round or np.linalg.norm(moved - way) < SLIP
            assert held_by(sim, joint) == inside
            assert drive(sim, joint, 0.0) == pytest.approx(0.0, abs=0.03)
    assert tried >= COUNT // 2
