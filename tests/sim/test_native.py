"""Control steps in one compiled call against the same ones step by step, and what that rests on."""

import copy
import logging
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from rearrange.sim.native import library
from rearrange.sim.native.addresses import address_of
from rearrange.sim.substep import Substepper
from rearrange.tasks.registry import make_env


@pytest.fixture
def plain(monkeypatch):
    """Worlds that are stepped by Python from now on."""
    monkeypatch.setattr("rearrange.sim.substep.native", lambda: None)


def course(task: str, homes: str, num_steps: int = 150) -> list[tuple]:
    """What there is to see of each step of a robot that drives into things with its arm out."""
    env = make_env(task, "train", seed=3, homes=homes, camera_size=16)
    env.reset()
    rng, seen = np.random.default_rng(0), []
    for step in range(num_steps):
        if step % 20 == 0:
            leaning = rng.uniform(-1.0, 1.0, 11)
            leaning[8] = abs(leaning[8])  # forward
        action = np.clip(leaning + rng.uniform(-0.3, 0.3, 11), -1.0, 1.0).astype(np.float32)
        action[10] = -1.0
        observation, reward, terminated, truncated, info = env.step(action)
        sim = env.sim
        seen.append((
            sim.data.qpos.tobytes(), sim.data.qvel.tobytes(), sim.data.time, reward, terminated,
            info["force_accum"], info["force_instant"], tuple(sim.collisions.values()),
            *(observation[name].tobytes() for name in sorted(observation)),
        ))  # fmt: skip
        if terminated or truncated:
            env.reset()
    return seen


@pytest.mark.parametrize(
    "task, homes", [("place", "hab"), ("open_fridge", "hab"), ("pick", "procedural")]
)
def test_both_ways_are_the_same_to_the_last_bit(task, homes, request):
    compiled = course(task, homes)
    request.getfixturevalue("plain")
    assert compiled == course(task, homes)
    assert any(step[5] > 0.0 for step in compiled)  # it has run into something


def test_a_callback_before_the_first_step_does_not_turn_compiled_steps_off():
    """It would be called in the check of MuJoCo's own layout, with another model."""
    program = (
        "import mujoco\n"
        "from rearrange.sim.native.library import native\n"
        "from rearrange.tasks.registry import make_env\n"
        "env = make_env('pick', 'val', depth=False)\n"
        "env.reset(seed=0)\n"
        "def seen(model, data): data.ctrl[model.nu - 1]\n"
        "mujoco.set_mjcb_control(seen)\n"
        "env.step(env.action_space.sample())\n"
        "mujoco.set_mjcb_control(None)\n"
        "print(native() is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_a_joint_held_against_contacts_is_left_to_python(monkeypatch):
    calls = {"_hold_fast_joints": 0, "_run_plain": 0}
    for name in calls:
        method = getattr(Substepper, name)

        def count(self, *given, method=method, name=name):
            calls[name] += 1
            return method(self, *given)

        monkeypatch.setattr(Substepper, name, count)
    course("open_fridge", "hab")
    assert calls["_hold_fast_joints"] > 0 and not calls["_run_plain"]


def test_a_watched_world_is_stepped_by_python(sim, make_scene):
    """Python that MuJoCo calls may raise, which compiled code could not pass on."""
    sim.reset(make_scene())
    times = []
    mujoco.set_mjcb_control(lambda model, data: times.append(data.time))
    try:
        sim.step(np.zeros(7), None, (0.5, 0.0))
    finally:
        mujoco.set_mjcb_control(None)
    assert len(times) >= 4


def test_any_python_that_mujoco_calls_may_raise(sim, make_scene):
    def refuse(*_):
        raise ArithmeticError("mine")

    sim.reset(make_scene())
    mujoco.set_mjcb_passive(refuse)
    try:
        with pytest.raises(ArithmeticError, match="mine"):
            sim.step(np.zeros(7), None, (0.5, 0.0))
    finally:
        mujoco.set_mjcb_passive(None)


@pytest.mark.parametrize("speed", [1e30, np.inf, np.nan])
def test_an_impossible_speed_is_told_of_by_both_ways(speed, request):
    for way in ("compiled", "plain"):
        if way == "plain":
            request.getfixturevalue("plain")
        env = make_env("pick", camera_size=16)
        env.reset(seed=0)
        address = int(env.sim.model.joint("object_00").dofadr[0])
        env.sim.data.qvel[address] = speed
        with pytest.raises(RuntimeError, match="the simulation is broken"):
            env.step(np.zeros(11))


def test_a_copied_simulation_goes_its_own_way(sim, make_scene):
    sim.reset(make_scene())
    sim.step(np.zeros(7), None, (0.5, 0.0))
    other = copy.deepcopy(sim)
    for _ in range(5):
        sim.step(np.zeros(7), None, (1.0, 0.0))
        other.step(np.zeros(7), None, (-1.0, 0.0))
    assert sim.base_speed > 0.3 and other.base_speed < -0.3


def test_without_mujocos_description_all_works_and_the_log_says_why(monkeypatch, caplog):
    monkeypatch.setattr(library, "_struct", lambda name: library.ctypes.c_int)
    with caplog.at_level(logging.WARNING):
        assert library.native.__wrapped__() is None
    assert "one by one, which is slower" in caplog.text


def test_fields_that_lie_elsewhere_are_noticed():
    found = library.native()
    assert found is not None  # MuJoCo is as it describes itself
    for name in ("ncon", "nefc", "time", "timestep", "contact_geom", "contact_size", "warning"):
        with pytest.raises(RuntimeError, match="should hold"):
            library._check(found._replace(**{name: getattr(found, name) + 8}))


def test_only_arrays_without_gaps_have_an_address():
    array = np.arange(6.0)
    assert address_of(array) == array.ctypes.data
    with pytest.raises(ValueError, match="C-contiguous"):
        address_of(array[::2])
