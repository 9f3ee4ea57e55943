"""The base: its speeds, and that it stops at what stands in its way."""

import math

import numpy as np
import pytest

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import floor_plan
from rearrange.sim.homes.layout import layout_ids, make_layout
from rearrange.sim.robot import fetch

STILL = np.zeros(7)
ARM_IN = np.array([-1.5, -1.1, 0.0, 2.2, 0.0, 1.3, 0.0])  # folded at the robot's side


def base_speed(sim) -> tuple[float, float]:
    """Speed over the floor (m/s) and turn (rad/s)."""
    velocity = [
        float(sim.data.qvel[sim.model.joint(n).dofadr[0]]) for n in ("base_x", "base_y", "base_yaw")
    ]
    return math.hypot(velocity[0], velocity[1]), velocity[2]


def test_full_command_gives_a_metre_a_second(sim, make_scene, run, open_floor):
    x, y = open_floor()
    for sign in (1.0, -1.0):
        sim.reset(make_scene(base=(x - 0.4 * sign, y, 0.0)))
        run(12, base=(sign, 0.0))
        assert base_speed(sim)[0] == pytest.approx(1.0, abs=0.02)
        before = sim.base_pose
        run(6, base=(sign, 0.0))
        assert sim.base_pose[0] - before[0] == pytest.approx(sign * 6 / 30, abs=0.005)


def test_full_turn_command_gives_the_limit(sim, make_scene, run):
    for sign in (1.0, -1.0):
        sim.reset(make_scene())
        run(30, base=(0.0, sign))
        before = sim.base_pose[2]
        run(15, base=(0.0, sign))
        turned = sim.base_pose[2] - before
        assert turned == pytest.approx(sign * fetch.MAX_BASE_TURN * 15 / 30, rel=0.02)


def test_speeds_never_pass_their_limits(sim, make_scene):
    """Full commands thrown from side to side: while the arm swings at most 3% above, the turn 7%.

    The shoulder lags no faster than its own limit, so the arm takes the base along.
    """
    rng = np.random.default_rng(0)
    sim.reset(make_scene())
    for _ in range(150):
        command = rng.choice([-1.0, 1.0], 2)
        for _ in range(rng.integers(1, 8)):
            sim.step(rng.uniform(-1, 1, 7), None, command)
            speed, turn = base_speed(sim)
            assert speed < 1.03 * fetch.MAX_BASE_SPEED and abs(turn) < 1.07 * fetch.MAX_BASE_TURN


def test_half_a_command_gives_half_the_speed(sim, make_scene, run):
    sim.reset(make_scene())
    run(15, base=(0.5, 0.0))
    assert base_speed(sim)[0] == pytest.approx(0.5, abs=0.01)


def test_the_base_moves_the_way_it_faces(sim, make_scene, run, open_floor):
    """Wheels do not slip sideways; while it turns, the velocity turns along within one substep."""
    for yaw in np.linspace(-3.0, 3.0, 7):
        sim.reset(make_scene(base=(*open_floor(), yaw)))
        run(10, base=(1.0, 0.3))
        vx, vy = (float(sim.data.qvel[sim.model.joint(n).dofadr[0]]) for n in ("base_x", "base_y"))
        ahead = np.array([math.cos(sim.base_pose[2]), math.sin(sim.base_pose[2])])
        assert ahead @ (vx, vy) > 0.9
        assert abs(ahead[0] * vy - ahead[1] * vx) < 0.04


def test_without_command_the_base_stops_within_a_quarter_of_a_second(sim, make_scene, run):
    sim.reset(make_scene())
    run(10, base=(1.0, 1.0))
    run(8)
    speed, turn = base_speed(sim)
    assert speed < 0.02 and abs(turn) < 0.1  # the arm still swings a little


def test_the_base_stays_on_its_plane(sim, make_scene, run):
    sim.reset(make_scene())
    run(20, arm=np.ones(7), base=(1.0, 1.0))
    base = sim.data.body("base_link")
    assert float(base.xpos[2]) == 0.0 and base.xmat[8] == pytest.approx(1.0, abs=1e-12)


def test_a_wall_stops_the_base(sim, make_scene, run):
    """Into the outer wall of macro layout 0 where no furniture stands, at full speed, and on."""
    layout = make_layout("v3_sc0_staging_00")
    y = 3.35
    sim.reset(make_scene(base=(1.5, y, math.pi), arm=ARM_IN))
    run(120, base=(1.0, 0.0))
    wall = layout.bounds[0]
    assert wall + 0.26 < sim.base_pose[0] < wall + 0.5  # base's radius: 0.28 m
    assert base_speed(sim)[0] < 0.02


def test_the_base_never_passes_through_furniture_or_walls(sim, make_scene):
    """Minutes of reckless driving in homes of all macro layouts: no footprint is ever entered.

    Contact gives way by millimetres, never by centimetres.
    """
    rng = np.random.default_rng(1)
    for macro in range(5):
        layout_id = f"v3_sc{macro}_staging_{rng.integers(21):02d}"
        layout = make_layout(layout_id)
        plan = floor_plan(layout, {})
        tall = [
            (x, y, *fur.PIECES[name].half, yaw)
            for name, (x, y, yaw) in layout.pieces.items()
            if name in ("island", "chest", "tvstand", "counter", "fridge", "sofa")
        ]
        solid = np.array([*tall, *layout.walls])
        x, y = plan.random_free_point(rng)
        sim.reset(make_scene(base=(x, y, rng.uniform(-3, 3)), layout_id=layout_id, arm=ARM_IN))
        for _ in range(40):
            command = (rng.choice([-1.0, 1.0]), rng.uniform(-1, 1) * rng.integers(2))
            for _ in range(15):
                sim.step(STILL, None, command)
                assert clearance(sim.base_pose, solid) > 0.28 - 0.02, layout_id
        assert sim.check_finite()


def test_the_end_of_a_wall_stops_the_base(sim, make_scene, run):
    """Driven against a wall's end off its middle, where the round base meets an edge.

    MuJoCo takes the contact of a cylinder and a box's edge for one with the box's next face.
    """
    wall = make_layout("v3_sc0_staging_00").walls[4]
    cx, cy, _, half_y, _ = wall
    for aside in (-0.2, -0.1, 0.1, 0.2):
        sim.reset(make_scene(base=(cx + aside, cy - half_y - 0.6, math.pi / 2), arm=ARM_IN))
        depth = -1.0
        for _ in range(60):
            sim.step(STILL, None, (1.0, 0.0))
            depth = max(depth, 0.28 - clearance(sim.base_pose, wall[None]))
        assert 0.0 < depth < 0.01, aside


def clearance(pose, rectangles) -> float:
    """Least distance of the base's centre to rectangles [N, 5], m."""
    cx, cy, hx, hy, yaw = rectangles.T
    dx, dy = pose[0] - cx, pose[1] - cy
    u = np.abs(np.cos(yaw) * dx + np.sin(yaw) * dy) - hx
    v = np.abs(np.cos(yaw) * dy - np.sin(yaw) * dx) - hy
    outside = np.hypot(np.maximum(u, 0), np.maximum(v, 0))
    return float((outside + np.minimum(np.maximum(u, v), 0)).min())


def test_the_robot_can_stand_anywhere_the_floor_plan_says(sim, make_scene):
    """Base and torso clear of everything at random free points of every layout, arm folded."""
    rng = np.random.default_rng(2)
    body = {sim.model.geom(name).id for name in ("base", "torso", "head")}
    for split in ("train", "val", "test"):
        for layout_id in layout_ids(split)[::3]:
            plan = floor_plan(make_layout(layout_id), {})
            for _ in range(3):
                x, y = plan.random_free_point(rng)
                sim.reset(make_scene(base=(x, y, 0.0), layout_id=layout_id, arm=ARM_IN))
                touching = {int(g) for g in sim.data.contact.geom.ravel()}
                assert not touching & body, (layout_id, x, y)


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_it_turns_while_it_is_pressed_against_a_wall(sim, make_scene, run, turn):
    """It stood still for the rest of the episode where a policy backed up before it turned."""
    sim.reset(make_scene(base=(0.28 + 0.05, 3.35, 0.0), arm=ARM_IN))  # its back to an outer wall
    run(20, base=(-0.4, 0.0))
    assert sim.has_robot_contact() and abs(sim.base_pose[2]) < 0.01
    run(20, base=(-0.4, turn))
    assert turn * sim.base_pose[2] > 0.5 * fetch.MAX_BASE_TURN * 20 / 30
