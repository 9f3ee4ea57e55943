"""Clearances against MuJoCo's own distances."""

import mujoco
import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.skills.motion import collision, kinematics

SHAPES = {"box": "0.1 0.2 0.05", "cylinder": "0.1 0.2", "sphere": "0.15", "capsule": "0.08 0.2"}


def scene(seed: int, num_each: int = 3) -> tuple[mujoco.MjModel, mujoco.MjData]:
    rng = np.random.default_rng(seed)
    geoms = []
    for shape, size in SHAPES.items():
        for _ in range(num_each):
            pos, euler = rng.uniform([0.3, -0.8, 0.2], [1.3, 0.8, 1.4]), rng.uniform(-90, 90, 3)
            numbers = (" ".join(f"{value:.4f}" for value in values) for values in (pos, euler))
            geoms.append(
                '<geom type="{}" size="{}" pos="{}" euler="{}"/>'.format(shape, size, *numbers)
            )
    xml = f"""<mujoco><worldbody><geom type="plane" size="5 5 1"/>{"".join(geoms)}
        <geom type="box" size="1 1 1" pos="0 0 -20"/><geom group="3" type="sphere" size="9"/>
        <body mocap="true"><geom name="probe" group="3" type="sphere" size="0.02"/></body>
        </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def test_point_distances_agree_with_mujoco():
    model, data = scene(0)
    base_pose = (0.2, -0.1, 0.7)
    obstacles = collision.obstacles_from_sim(model, data, base_pose, reach=5.0)
    assert len(obstacles) == 12  # neither the floor, nor what is parked, nor the robot's group
    cos, sin = np.cos(0.7), np.sin(0.7)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    probe = model.geom("probe").id
    for point in np.random.default_rng(1).uniform([0, -1, 0], [1.5, 1, 1.5], (60, 3)):
        data.mocap_pos[0] = turn @ point + (*base_pose[:2], 0.0)
        mujoco.mj_forward(model, data)
        reference = [
            mujoco.mj_geomDistance(model, data, geom, probe, 5.0, None) + 0.02
            for geom in range(1, 13)
        ]
        ours = collision._primitive_distances(
            point, obstacles.kind, obstacles.pos, obstacles.rot, obstacles.size
        )
        outside = (
            np.array(reference) > 0.0
        )  # inside, MuJoCo's depth of a convex pair is another measure
        assert ours[outside] == pytest.approx(np.array(reference)[outside], abs=2e-3)
        assert (ours[~outside] < 2e-3).all()


def test_excluded_and_distant_geoms_are_left_out():
    model, data = scene(0)
    everything = collision.obstacles_from_sim(model, data, (0, 0, 0), reach=5.0)
    assert (
        len(collision.obstacles_from_sim(model, data, (0, 0, 0), (1, 2), reach=5.0))
        == len(everything) - 2
    )
    assert len(collision.obstacles_from_sim(model, data, (20, 0, 0))) == 0


def test_spheres_hold_the_links_and_stick_out_little():
    for name, begin, end, radius in fetch.ARM_CAPSULES:
        frame = [joint.name for joint in fetch.ARM_JOINTS].index(name)
        spheres = collision._ARM_SPHERES[frame == collision._FRAME_OF_SPHERE]
        assert (spheres[:, 3] <= radius + 0.01).all()
        for share in np.linspace(0, 1, 50):
            centre = np.array(begin) + share * (np.array(end) - begin)
            for angle in np.linspace(0, 6, 7):
                along = (np.array(end) - begin) / np.linalg.norm(np.array(end) - begin)
                across = np.cross(along, (0, 1, 0)) / np.linalg.norm(np.cross(along, (0, 1, 0)))
                other = np.cross(along, across)
                point = centre + 0.99 * radius * (np.cos(angle) * across + np.sin(angle) * other)
                assert (np.linalg.norm(spheres[:, :3] - point, axis=1) < spheres[:, 3]).any()


def test_common_postures_are_free_and_impossible_ones_are_not():
    assert collision.min_clearance(fetch.ARM_START) > 0.05
    into_torso = kinematics.solve_ik([0.0, 0.0, 0.8], num_restarts=40)
    assert into_torso is not None and collision.min_clearance(into_torso) < 0.0
    into_floor = kinematics.solve_ik([0.6, 0.0, 0.0], [0, 0, -1])
    assert into_floor is None or collision.min_clearance(into_floor) < 0.005


def test_a_segment_is_free_if_every_posture_on_it_is():
    model, data = scene(3, num_each=1)
    obstacles = collision.obstacles_from_sim(model, data, (0, 0, 0))
    rng = np.random.default_rng(0)
    verdicts = []
    for q0, q1 in rng.uniform(fetch.ARM_LOWER, fetch.ARM_UPPER, (150, 2, 7)) * 0.5:
        dense = min(
            collision.min_clearance(q0 + t * (q1 - q0), obstacles) for t in np.linspace(0, 1, 150)
        )
        is_free = collision.segment_free(q0, q1, obstacles, margin=0.01)
        verdicts.append(is_free)
        assert is_free == (dense >= 0.01) or abs(dense - 0.01) < 0.003  # its tolerance is 2 mm
    assert 10 < sum(verdicts) < 140


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ("box", (0.03, 0.08, 0.1)),
        ("cylinder", (0.04, 0.06, 0)),
        ("sphere", (0.04, 0, 0)),
        ("cylinder", (0.13, 0.03, 0)),
    ],
)
def test_held_spheres_fill_the_object(shape, size):
    spheres = collision.held_spheres(shape, size, np.array([0.1, 0.0, 0.0]))
    half = {"box": size, "cylinder": (size[0], size[0], size[1]), "sphere": (size[0],) * 3}[shape]
    local = spheres[:, :3] - (0.1, 0.0, 0.0)
    reach = (np.abs(local) + spheres[:, 3:]).max(axis=0)
    assert (reach >= np.array(half) - 1e-9).all() and (reach <= np.array(half) + 0.01).all()


def test_what_is_held_counts():
    wall = collision.Obstacles(
        np.array([collision.BOX]),
        np.array([[1.0, 0.0, 1.0]]),
        np.eye(3)[None],
        np.array([[0.1, 1.0, 1.0]]),
    )
    q = kinematics.solve_ik([0.75, 0.0, 0.9], [0.6, 0, -0.8])
    ball = collision.held_spheres("sphere", (0.05,), np.array([0.05, 0.0, 0.0]))
    # The ball's front is 0.75 + 0.05 * 0.6 + 0.05 = 0.83 m, the wall's 0.9 m.
    assert collision.min_clearance(q, wall, ball) == pytest.approx(0.07, abs=0.003)
    assert collision.min_clearance(q, wall) > 0.08
    assert collision.is_free(q, wall, ball, 0.06) and not collision.is_free(q, wall, ball, 0.08)


def test_a_base_pose_is_free_where_body_and_arm_fit():
    table = collision.Obstacles(
        np.array([collision.BOX]),
        np.array([[2.0, 0.0, 0.35]]),
        np.eye(3)[None],
        np.array([[0.4, 0.6, 0.35]]),
    )
    q = fetch.ARM_START
    assert collision.place_free((1.25, 0.0, 0.0), q, table)  # the hand reaches over the table
    assert not collision.place_free((1.4, 0.0, 0.0), q, table)
    assert not collision.place_free((2.0, 0.0, 0.0), q, table)
