"""Drawers and doors: they move along their one axis, by their handle, and lose energy."""

import math

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.homes.layout import make_layout

LAYOUT = "v3_sc0_staging_00"
# Level ahead, 0.745 m and 1.05 m high: the upper drawers' and the fridge's handle.
ARMS = {
    "drawer_right_top": (0.0, 1.45, 0.0, -1.965268, 0.0, 0.515268, 0.0),
    "drawer_left_top": (0.0, 1.45, 0.0, -1.965268, 0.0, 0.515268, 0.0),
    "fridge_top_door": (0.0, -1.15, 0.0, 1.850760, 0.0, -0.700760, 0.0),
}
STILL = np.zeros(7)


def handle_in_piece(joint: str) -> tuple[str, float, float]:
    """Piece, and front face of the closed handle in its frame (x, y)."""
    if joint in fur.DRAWERS:
        return "counter", fur.DRAWER_HANDLE_X + 0.015, fur.DRAWERS[joint][0]
    return "fridge", fur.FRIDGE_HINGE[0] + 0.135, fur.FRIDGE_HINGE[1] - 0.61


@pytest.fixture
def grip(sim, make_scene):
    """The robot before a closed handle, holding it; gives the marker."""

    def hold(joint: str) -> str:
        piece, x, y = handle_in_piece(joint)
        pose = make_layout(LAYOUT).pieces[piece]
        sim.reset(make_scene(arm=ARMS[joint]))
        reach = float(sim.ee_pos_b[0])
        bx, by = piece_to_world(pose, x + 0.01 + reach, y)
        sim.reset(make_scene(base=(bx, by, pose[2] + math.pi), arm=ARMS[joint]))
        for _ in range(30):
            if sim.is_holding:
                break
            sim.step(STILL, 1.0, (0.1, 0.0))
        assert sim.held_marker == fur.MARKER_OF_JOINT[joint]
        return sim.held_marker

    return hold


@pytest.mark.parametrize("joint", ["drawer_right_top", "drawer_left_top"])
def test_a_drawer_held_by_its_handle_slides_along_its_axis(joint, grip, sim, run):
    """The base backs off 35 cm: the drawer comes along as far, straight out, the hold unbroken."""
    marker = grip(joint)
    closed, base = sim.marker_pos_w(marker), np.array(sim.base_pose[:2])
    opened = sim.joint_position(joint)
    run(27, grip=1.0, base=(-0.4, 0.0))
    yaw = make_layout(LAYOUT).pieces["counter"][2]
    moved = sim.marker_pos_w(marker) - closed
    distance = float(np.hypot(*(np.array(sim.base_pose[:2]) - base)))
    assert distance > 0.3
    assert moved[:2] @ (math.cos(yaw), math.sin(yaw)) == pytest.approx(distance, abs=0.02)
    assert abs(moved[:2] @ (-math.sin(yaw), math.cos(yaw))) < 1e-3 and abs(moved[2]) < 1e-6
    assert sim.joint_position(joint) - opened == pytest.approx(np.linalg.norm(moved), abs=1e-6)
    assert sim.held_marker == marker and sim.hold_stretch < 0.01


def test_a_drawer_is_pushed_shut_by_its_handle(grip, sim, run):
    grip("drawer_right_top")
    run(24, grip=1.0, base=(-0.4, 0.0))
    assert sim.joint_position("drawer_right_top") > 0.25
    run(27, grip=1.0, base=(0.4, 0.0))
    assert sim.joint_position("drawer_right_top") < 0.02


def test_the_fridge_door_swings_open_when_its_handle_is_pulled(grip, sim, run):
    marker = grip("fridge_top_door")
    pose = make_layout(LAYOUT).pieces["fridge"]
    hinge = np.array(piece_to_world(pose, *fur.FRIDGE_HINGE))
    radius = np.hypot(*(sim.marker_pos_w(marker)[:2] - hinge))
    for _ in range(24):
        sim.step(STILL, 1.0, (-0.4, 0.0))
        now = sim.marker_pos_w(marker)
        assert np.hypot(*(now[:2] - hinge)) == pytest.approx(radius, abs=1e-6)
        assert now[2] == pytest.approx(fur.FRIDGE_HANDLE_Z, abs=1e-6)
    assert sim.joint_position("fridge_top_door") > 0.4
    assert sim.held_marker == marker and not sim.hold_violation


def test_opening_the_fridge_gently_presses_gently(grip, sim):
    """The base's motor gives 500 N at most, the door needs a few: contact must not give more."""
    grip("fridge_top_door")
    most = 0.0
    for _ in range(24):
        sim.step(STILL, 1.0, (-0.4, 0.0))
        most = max(most, sim.force_instant)
    assert most < 200.0


def test_opening_angle_is_that_of_the_door_seen_from_above(sim, make_scene):
    """0: the handle is in front of the fridge; 90 degrees: beside the hinge, 61 cm further out."""
    pose = make_layout(LAYOUT).pieces["fridge"]
    for angle in (0.0, 0.7, 1.5708, 2.3):
        sim.reset(make_scene(joints={"fridge_top_door": angle}))
        c, s = math.cos(angle), math.sin(angle)
        x = fur.FRIDGE_HINGE[0] + 0.10 * c + 0.61 * s
        y = fur.FRIDGE_HINGE[1] + 0.10 * s - 0.61 * c
        assert sim.marker_pos_w("fridge_push_point")[:2] == pytest.approx(
            piece_to_world(pose, x, y)
        )


def test_a_scene_starts_with_its_joints_as_given(sim, make_scene, run):
    joints = {"drawer_left_top": 0.3, "drawer_middle_bottom": 0.5, "fridge_bottom_door": 1.0}
    sim.reset(make_scene(joints=joints))
    run(30)
    for name in fur.ARTICULATED_JOINTS:
        assert sim.joint_position(name) == pytest.approx(joints.get(name, 0.0), abs=1e-9)


@pytest.mark.parametrize(
    ("joints", "why"),
    [
        ({"drawer_top": 0.1}, "scene joint must be one of drawer_left_top"),
        ({"drawer_left_top": 0.51}, r"drawer_left_top must lie in \[0, 0.5\], got 0.51"),
        ({"fridge_top_door": -0.1}, "fridge_top_door must lie in"),
    ],
)
def test_joints_that_are_unknown_or_out_of_range_are_refused(joints, why, sim, make_scene):
    with pytest.raises(UserError, match=why):
        sim.reset(make_scene(joints=joints))


@pytest.mark.parametrize("joint", fur.ARTICULATED_JOINTS)
def test_drawers_and_doors_stay_within_their_range(joint, sim, make_scene):
    """Pushed hard both ways: no more than 2 cm or 0.06 rad past either end."""
    sim.reset(make_scene())
    dof = sim.model.joint(joint).dofadr[0]
    low, high = sim.model.joint(joint).range
    margin = 0.02 if joint in fur.DRAWERS else 0.06
    for force in (50.0, -50.0):
        for _ in range(40):
            sim.data.qfrc_applied[dof] = force
            sim.step(STILL, None, (0.0, 0.0))
            assert low - margin < sim.joint_position(joint) < high + margin
    sim.data.qfrc_applied[dof] = 0.0


@pytest.mark.parametrize("joint", ["drawer_right_top", "fridge_top_door"])
def test_a_pushed_drawer_or_door_coasts_to_rest_and_sleeps(joint, sim, make_scene, run):
    sim.reset(make_scene(joints={joint: 0.1}))
    sim.data.qvel[sim.model.joint(joint).dofadr[0]] = 0.3
    run(1)
    assert sim.joint_velocity(joint) > 0.1
    run(90)
    assert abs(sim.joint_velocity(joint)) < 1e-3 and sim.joint_position(joint) > 0.11
    assert sim.data.ntree_awake == 1


def test_what_lies_in_a_drawer_goes_along(sim, make_scene, run):
    """Pushed out and stopped by its end, the drawer still has the bowl in it."""
    receptacle = make_layout(LAYOUT).receptacle(
        "receptacle_aabb_drawer_right_top_frl_apartment_kitchen_counter"
    )
    x, y, z = receptacle.pos
    sim.reset(make_scene(("024_bowl", (x, y, z + 0.0265))))
    joint = sim.model.joint("drawer_right_top")
    for _ in range(40):
        sim.data.qfrc_applied[joint.dofadr[0]] = 12.0
        sim.step(STILL, None, (0.0, 0.0))
    sim.data.qfrc_applied[joint.dofadr[0]] = 0.0
    run(30)
    opening = sim.joint_position("drawer_right_top")
    assert opening > 0.45
    ahead = np.array([math.cos(receptacle.yaw), math.sin(receptacle.yaw)])
    moved = sim.object_pos_w(0)[:2] - (x, y)
    assert moved @ ahead == pytest.approx(opening, abs=0.25)  # it slides a little on the floor
    assert sim.object_pos_w(0)[2] == pytest.approx(z + 0.0265, abs=0.003)


# --- energy --------------------------------------------------------------------------------------


def energy_of_objects(sim) -> float:
    """Kinetic and potential energy of the scene's objects, J, from speeds, masses and heights."""
    total = 0.0
    for i in range(sim.num_objects):
        kind = sim.object_kind(i)
        joint = sim.model.body_jntadr[sim.model.geom_bodyid[sim.object_geom(i)]]
        dof, height = sim.model.jnt_dofadr[joint], sim.data.qpos[sim.model.jnt_qposadr[joint] + 2]
        velocity, spin = (
            sim.data.qvel[dof : dof + 3],
            sim.data.qvel[dof + 3 : dof + 6],
        )  # spin: local
        total += kind.mass * (9.81 * height + 0.5 * velocity @ velocity)
        total += 0.5 * spin @ (kind.inertia() * spin)
    return total


def test_energy_never_rises_while_objects_fall_and_settle(sim, make_scene, wake):
    """Eight kinds dropped from 10 to 60 cm above the floor, three seconds.

    Contacts are soft and give back what they were pressed by: a rise may reach a hundredth of what
    the fall set free. In the end all of that is gone.
    """
    kinds = ("003_cracker_box", "002_master_chef_can", "013_apple", "024_bowl", "004_sugar_box",
             "007_tuna_fish_can", "017_orange", "021_bleach_cleanser")  # fmt: skip
    heights = np.linspace(0.2, 0.7, len(kinds))
    objects = [(kind, (4.2 + 0.3 * i, 2.5, float(heights[i]))) for i, kind in enumerate(kinds)]
    sim.reset(make_scene(*objects))
    wake()
    energy = [energy_of_objects(sim)]
    for _ in range(360):
        mujoco.mj_step(sim.model, sim.data)
        energy.append(energy_of_objects(sim))
    freed = energy[0] - energy[-1]
    assert freed > 5.0
    rise = np.array(energy) - np.minimum.accumulate(energy)
    assert rise.max() < 0.01 * freed
    assert np.abs(sim.data.qvel).max() < 0.05


def test_energy_never_rises_in_a_tumbling_pile(sim, make_scene, wake):
    """Twelve boxes and cans dropped onto each other."""
    rng = np.random.default_rng(5)
    kinds = ("003_cracker_box", "005_tomato_soup_can", "004_sugar_box", "010_potted_meat_can") * 3
    objects = [
        (kind, (5.0 + rng.uniform(-0.06, 0.06), 2.5 + rng.uniform(-0.06, 0.06), 0.2 + 0.25 * i))
        for i, kind in enumerate(kinds)
    ]
    sim.reset(make_scene(*objects))
    wake()
    energy = [energy_of_objects(sim)]
    for _ in range(480):
        mujoco.mj_step(sim.model, sim.data)
        energy.append(energy_of_objects(sim))
    freed = energy[0] - energy[-1]
    rise = np.array(energy) - np.minimum.accumulate(energy)
    assert freed > 20.0 and rise.max() < 0.01 * freed


@pytest.mark.parametrize(("joint", "speed"), [("drawer_right_top", 0.8), ("fridge_top_door", 2.0)])
def test_energy_never_rises_while_a_drawer_or_door_coasts(joint, speed, sim, make_scene):
    """Damping and friction take it away; the stop at the end gives back no more than it got."""
    sim.reset(make_scene(joints={joint: 0.2}))
    dof = sim.model.joint(joint).dofadr[0]
    sim.data.qvel[dof] = speed
    model, data = sim.model, sim.data
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    mass = float(inertia[dof, dof])
    last = 0.5 * mass * speed**2
    for _ in range(360):
        mujoco.mj_step(model, data)
        past = max(
            0.0, float(data.qpos[model.joint(joint).qposadr[0]]) - model.joint(joint).range[1]
        )
        now = 0.5 * mass * float(data.qvel[dof]) ** 2
        if past == 0.0:
            assert now <= last * (1 + 1e-9) + 1e-12
            last = now
    assert last < 1e-6


def test_coasting_slows_as_damping_and_friction_say(sim, make_scene):
    """m dv/dt = -8 v - 2 for a drawer: after t, v = (v0 + 1/4) exp(-8 t / m) - 1/4."""
    sim.reset(make_scene(joints={"drawer_right_top": 0.05}))
    model, data = sim.model, sim.data
    mass = float(model.body("drawer_right_top").mass[0])
    dof = model.joint("drawer_right_top").dofadr[0]
    data.qvel[dof] = 0.5
    for step in range(1, 25):
        mujoco.mj_step(model, data)
        t = step / 120
        expected = (0.5 + 0.25) * math.exp(-8.0 * t / mass) - 0.25
        assert float(data.qvel[dof]) == pytest.approx(max(expected, 0.0), abs=0.02)
