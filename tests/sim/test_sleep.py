"""Resting clutter sleeps and costs nothing, touching wakes it, and the past leaves no trace."""

import hashlib
import inspect
import math
import subprocess
import sys
import time

import numpy as np
import pytest

from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.generate import generate_episode

STILL = np.zeros(7)
ARM_IN = (-1.5, -1.1, 0.0, 2.2, 0.0, 1.3, 0.0)


@pytest.fixture(scope="module")
def home():
    """A furnished home of 30 objects."""
    return generate_episode("tidy_house", "val", 4, 0).scene


def follow(sim, task: str, index: int) -> str:
    """Digest of all positions and forces over 120 control steps of reckless driving."""
    sim.reset(generate_episode(task, "val", 4, index).scene)
    rng = np.random.default_rng(index)
    digest = hashlib.sha256()
    for _ in range(12):
        arm, grip, base = rng.uniform(-1, 1, 7), float(rng.uniform(-1, 1)), rng.uniform(-1, 1, 2)
        for _ in range(10):
            sim.step(arm, grip, base)
            digest.update(sim.data.qpos.tobytes())
            digest.update(np.float64([sim.force_instant, sim.force_accum]).tobytes())
    return digest.hexdigest()


def test_after_a_reset_only_the_robot_is_awake(sim, home):
    sim.reset(home)
    assert sim.num_objects == 30 and sim.data.ntree_awake == 1


def test_clutter_sleeps_on_while_the_robot_waves(sim, home):
    sim.reset(home)
    rng = np.random.default_rng(0)
    for step in range(90):
        arm = np.array([np.sin(step / 5), 0.2, 1, np.cos(step / 7), -1, 0.3, 1]) * 0.5
        sim.step(arm, None, (0.0, float(rng.uniform(-0.3, 0.3))))
        if sim.has_robot_contact():
            break
        assert sim.data.ntree_awake == 1
    assert step > 20


def test_what_sleeps_does_not_move_at_all(sim, home):
    sim.reset(home)
    before = [(sim.object_pos_w(i), sim.object_quat_w(i)) for i in range(30)]
    for _ in range(30):
        sim.step(STILL, None, (0.0, 0.5))
        if sim.has_robot_contact():
            break
    for i, (pos, quat) in enumerate(before):
        assert (sim.object_pos_w(i) == pos).all() and (sim.object_quat_w(i) == quat).all()


def test_objects_sleep_exactly_where_the_scene_puts_them(sim, home):
    sim.reset(home)
    for i, placement in enumerate(home.objects):
        assert sim.object_pos_w(i) == pytest.approx(placement.pos, abs=1e-12)
        assert sim.object_quat_w(i) == pytest.approx(placement.quat, abs=1e-12)


def test_touching_wakes_and_moves(sim, make_scene, open_floor, run):
    x, y = open_floor()
    box = ("003_cracker_box", (x + 0.5, y, 0.105))
    sim.reset(make_scene(box, base=(x, y, 0.0), arm=ARM_IN))
    assert sim.data.ntree_awake == 1
    run(20, base=(0.6, 0.0))
    assert sim.data.ntree_awake == 2 and sim.object_pos_w(0)[0] > x + 0.51


def test_what_was_touched_comes_to_rest_and_sleeps_again(sim, make_scene, open_floor, run):
    x, y = open_floor()
    box = ("003_cracker_box", (x + 0.5, y, 0.105))
    sim.reset(make_scene(box, base=(x, y, 0.0), arm=ARM_IN))
    run(12, base=(0.6, 0.0))
    run(60, base=(-0.3, 0.0))
    assert sim.data.ntree_awake == 1


def test_what_something_falls_on_wakes(sim, make_scene, on_table, wake, run):
    """A can dropped onto a standing one: both awake at the blow."""
    kind, (x, y, z) = on_table("002_master_chef_can")
    sim.reset(make_scene((kind, (x, y, z)), (kind, (x + 0.03, y, z + 0.2))))
    dof = sim.model.body_dofadr[sim.model.geom_bodyid[sim.object_geom(1)]]
    sim.data.qvel[dof + 2] = -0.01
    most = 0
    for _ in range(20):
        run(1)
        most = max(most, int(sim.data.ntree_awake))
    assert most == 3


def test_opening_a_drawer_wakes_what_lies_in_it(sim):
    episode = generate_episode("open_drawer", "val", 4, 0)
    sim.reset(episode.scene)
    bowl = episode.targets[0].object
    before = sim.object_pos_w(bowl)
    dof = sim.model.joint("drawer_right_top").dofadr[0]
    for _ in range(20):
        sim.data.qfrc_applied[dof] = 12.0
        sim.step(STILL, None, (0.0, 0.0))
    sim.data.qfrc_applied[dof] = 0.0
    moved = float(np.linalg.norm(sim.object_pos_w(bowl) - before))
    assert moved > 0.05


def test_a_sleeping_home_costs_little(sim, home, make_scene):
    """A step with 30 sleeping objects takes at most three times a step with none."""

    def fastest(scene) -> float:
        sim.reset(scene)
        times = []
        for _ in range(60):
            start = time.perf_counter()
            sim.step(STILL, None, (0.0, 0.0))
            times.append(time.perf_counter() - start)
        return sorted(times)[10]

    empty = fastest(make_scene(base=home.base, layout_id=home.layout_id))
    assert fastest(home) < 3.0 * empty


def test_a_reset_is_the_same_whatever_was_before(sim, home, make_scene, run):
    """Bit by bit, after other homes, held objects and open drawers."""
    sim.reset(home)
    qpos, xpos = sim.data.qpos.copy(), sim.data.geom_xpos.copy()
    sim.reset(make_scene(("013_apple", (5.0, 2.0, 0.2)), joints={"drawer_left_top": 0.4}))
    sim.snap_object(0)
    run(20, arm=np.ones(7), grip=1.0, base=(1.0, 1.0))
    sim.reset(home)
    assert (sim.data.qpos == qpos).all() and (sim.data.geom_xpos == xpos).all()
    assert not sim.is_holding and sim.data.time == 0.0


def test_the_same_actions_give_the_same_world_after_another_past(sim):
    """Twelve drives, each in a world of its own; then backwards, all in one."""
    drives = [(task, i) for task in ("tidy_house", "place", "pick", "set_table") for i in range(3)]
    expected, contacts = {}, 0
    for drive in drives:
        fresh = Simulation()
        expected[drive] = follow(fresh, *drive)
        contacts += fresh.collisions["robot_scene"] + fresh.collisions["robot_object"]
    assert contacts > 20  # not idle drives
    for drive in reversed(drives):
        assert follow(sim, *drive) == expected[drive], drive


def test_a_held_object_leaves_no_trace_in_the_next_episode(sim):
    expected = follow(Simulation(), "pick", 5)
    episode = generate_episode("place", "val", 4, 0)
    sim.reset(episode.scene)
    sim.snap_object(episode.targets[0].object)
    for _ in range(10):
        sim.step(np.ones(7), 1.0, (0.5, 0.5))
    assert follow(sim, "pick", 5) == expected


def test_another_process_gives_the_same_world(sim):
    code = "import hashlib, numpy as np; from rearrange.sim.simulation import Simulation\n"
    code += "from rearrange.tasks.episodes.generate import generate_episode\n"
    code += inspect.getsource(follow)
    code += 'print(follow(Simulation(), "tidy_house", 1), follow(Simulation(), "place", 4))'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [follow(sim, "tidy_house", 1), follow(sim, "place", 4)]


def test_nothing_drifts_in_20_seconds_of_standing_still(sim, home):
    sim.reset(home)
    start = sim.data.qpos.copy()
    for _ in range(600):
        sim.step(STILL, None, (0.0, 0.0))
    assert np.abs(sim.data.qpos - start).max() < 0.005
    assert sim.data.ntree_awake == 1 and math.isfinite(sim.force_accum)
