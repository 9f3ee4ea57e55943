"""Fetch in MuJoCo against the kinematics of its public URDF, computed by two other programs."""

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from rearrange.sim.robot import fetch

PUBLIC = json.loads((Path(__file__).parents[2] / "data" / "fetch_kinematics.json").read_text())
NAMES = [joint.name for joint in fetch.ARM_JOINTS]


@pytest.fixture(scope="module")
def robot(sim, make_scene):
    """The model and data of its own: poses are set without physics."""
    sim.reset(make_scene(base=(5.0, 2.0, 0.7)))
    data = mujoco.MjData(sim.model)
    data.qpos[:] = sim.data.qpos
    return sim.model, data


def pose_in_base(model, data, name):
    base, body = data.body("base_link"), data.body(name)
    turn = base.xmat.reshape(3, 3).T
    return turn @ (body.xpos - base.xpos), turn @ body.xmat.reshape(3, 3)


def set_arm(model, data, angles):
    for name, angle in zip(NAMES, angles, strict=True):
        data.qpos[model.joint(name).qposadr] = angle
    mujoco.mj_kinematics(model, data)


def test_gripper_is_where_the_public_kinematics_has_it(robot):
    """200 configurations, 0.1 mm and 1e-4 in every entry of the rotation."""
    model, data = robot
    assert len(PUBLIC["rows"]) == 200
    for row in PUBLIC["rows"]:
        set_arm(model, data, row["joint"])
        position, rotation = pose_in_base(model, data, "gripper_link")
        assert np.abs(position - row["gripper_pos"]).max() < 1e-4
        assert np.abs(rotation - row["gripper_rot"]).max() < 1e-4


def test_joints_come_in_the_order_of_the_public_data():
    assert [f"{name}_joint" for name in NAMES] == list(PUBLIC["limits"])


def test_joint_limits_are_the_public_ones(robot):
    model, _ = robot
    for name in NAMES:
        assert model.joint(name).range == pytest.approx(PUBLIC["limits"][f"{name}_joint"], abs=1e-4)


def test_link_masses_are_the_public_ones(robot):
    model, _ = robot
    for link, mass in PUBLIC["link_mass_kg"].items():
        assert float(model.body(link).mass[0]) == pytest.approx(mass, abs=1e-3), link


def test_the_robot_has_no_other_mass(robot):
    model, _ = robot
    total = float(model.body_subtreemass[model.body("base_link").id])
    assert total == pytest.approx(sum(PUBLIC["link_mass_kg"].values()), abs=1e-3)


def test_motors_give_the_public_efforts(robot):
    efforts = (33.82, 131.76, 76.94, 66.18, 29.35, 25.7, 7.36)  # N m, hab_fetch_arm.urdf
    model, _ = robot
    for name, effort in zip(NAMES, efforts, strict=True):
        assert tuple(model.actuator(name).forcerange) == (-effort, effort)


def test_hinges_and_rolls_are_damped_as_in_the_urdf(robot):
    model, _ = robot
    damping = [float(model.dof_damping[model.joint(name).dofadr[0]]) for name in NAMES]
    assert damping == [1.0, 1.0, 5.0, 1.0, 5.0, 1.0, 5.0]


def test_the_end_effector_lies_8_cm_before_the_gripper_link(robot):
    model, data = robot
    set_arm(model, data, PUBLIC["rows"][2]["joint"])
    gripper = data.body("gripper_link")
    tip = gripper.xpos + 0.08 * gripper.xmat.reshape(3, 3)[:, 0]
    assert data.site("ee").xpos == pytest.approx(tip, abs=1e-9)


def test_the_shoulder_height_has_the_torso_raised_15_cm(robot):
    """Fetch's manual: torso_lift_link at z = 0.37743 m, shoulder_pan 0.34858 m above it."""
    model, data = robot
    set_arm(model, data, np.zeros(7))
    position, _ = pose_in_base(model, data, "shoulder_pan_link")
    assert position[2] == pytest.approx(0.37743 + 0.34858 + 0.15, abs=1e-4)


def test_the_head_camera_looks_where_habs_does(robot):
    """From 0.25 m ahead and 1.2 m up at a point 0.75 m ahead and 1.0 m up (hab-spec 1.4)."""
    model, data = robot
    mujoco.mj_camlight(model, data)
    base, camera = data.body("base_link"), data.cam("head")
    turn = base.xmat.reshape(3, 3).T
    assert turn @ (camera.xpos - base.xpos) == pytest.approx([0.25, 0.0, 1.2], abs=1e-9)
    right, up, back = (turn @ camera.xmat.reshape(3, 3)).T
    assert -back == pytest.approx(np.array([0.5, 0, -0.2]) / np.hypot(0.5, 0.2), abs=1e-9)
    assert right == pytest.approx([0.0, -1.0, 0.0], abs=1e-9) and up[2] > 0
    assert float(model.cam("head").fovy[0]) == 90.0


def test_the_camera_moves_with_the_base_alone(robot):
    model, data = robot
    before = pose_of_camera(model, data, np.zeros(7))
    assert pose_of_camera(model, data, np.array(PUBLIC["rows"][5]["joint"])) == before


def pose_of_camera(model, data, arm):
    set_arm(model, data, arm)
    mujoco.mj_camlight(model, data)
    return (*data.cam("head").xpos, *data.cam("head").xmat)


def test_the_arm_moves_at_most_the_commanded_step(sim, make_scene, run):
    sim.reset(make_scene())
    for sign in (1.0, -1.0):
        before = sim.arm_target.copy()
        sim.step(np.full(7, sign), None, (0.0, 0.0))
        assert np.abs(sim.arm_target - before).max() <= 0.0125 + 1e-12


def test_the_arm_follows_its_targets(sim, make_scene, run):
    """One second at full command, then half a second to settle: within 0.02 rad."""
    sim.reset(make_scene())
    run(30, arm=np.array([1, 0.5, -1, 0.5, 1, -0.5, 1.0]))
    run(15)
    assert np.abs(sim.arm_qpos - sim.arm_target).max() < 0.02


def test_the_arm_stays_within_its_limits(sim, make_scene, run):
    for sign in (1.0, -1.0):
        sim.reset(make_scene())
        run(200, arm=np.full(7, sign))
        assert (sim.arm_qpos > fetch.ARM_LOWER - 0.02).all()
        assert (sim.arm_qpos < fetch.ARM_UPPER + 0.02).all()


def test_the_arm_holds_itself_against_gravity(sim, make_scene, run):
    """Stretched out ahead, where gravity pulls most."""
    sim.reset(make_scene(arm=np.zeros(7)))
    start = sim.ee_pos_w
    run(60)
    assert np.abs(sim.ee_pos_w - start).max() < 0.002


def test_the_arm_at_rest_does_not_touch_the_robot_itself(sim, make_scene):
    sim.reset(make_scene())
    assert sim.data.ncon == 0


def test_targets_wind_up_as_in_hab_unless_they_are_bounded(sim, make_scene, run):
    """Past a joint's limit: by all that was commanded, or up to the limit at most."""
    try:
        for lead in (None, 0.15):
            sim.motor_lead = lead
            sim.reset(make_scene())
            start = sim.arm_target
            run(100, arm=np.array([0, -1.0, 0, 0, 0, 0, 0]))  # 1.25 rad, with 0.14 rad of room
            assert sim.arm_qpos[1] == pytest.approx(fetch.ARM_LOWER[1], abs=0.02)
            wound_up = start[1] - 1.25 if lead is None else fetch.ARM_LOWER[1]
            assert sim.arm_target[1] == pytest.approx(wound_up, abs=1e-9)
            run(40, arm=np.array([0, 1.0, 0, 0, 0, 0, 0]))  # half a radian back
            moved = sim.arm_qpos[1] - fetch.ARM_LOWER[1]
            assert moved == pytest.approx(0.0 if lead is None else 0.5, abs=0.03)
    finally:
        sim.motor_lead = None


def test_the_hand_cannot_pass_through_the_base(sim, make_scene, run):
    """Folded down onto the base, the arm is stopped by contact with it."""
    sim.reset(make_scene(arm=[0.0, 1.2, 0.0, 1.5, 0.0, 1.5, 0.0]))
    run(150, arm=np.array([0, 1, 0, 1, 0, 1, 0.0]))
    base = sim.model.geom("base").id
    hand = [sim.model.geom(name).id for name in ("palm", "nozzle", "wrist_roll_capsule")]
    for geom in hand:
        assert mujoco.mj_geomDistance(sim.model, sim.data, geom, base, 1.0, None) > -0.01
