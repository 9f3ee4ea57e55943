"""Quick ways to open and close: rehearsed on a twin, carried out in the world."""

import numpy as np
import pytest

from rearrange.sim.home.furniture import MARKERS
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle import doors as oracle_doors
from rearrange.skills.oracle import still_fridge as doors_fridge
from rearrange.skills.oracle.lead import is_at_rest, lead
from rearrange.skills.oracle.rehearsal import rehearse, twin
from rearrange.skills.skill import ARM, BASE, GRIP
from rearrange.tasks.episodes.generate import generate_episode

TASKS = ("open_drawer", "close_drawer", "open_fridge", "close_fridge")


@pytest.fixture(scope="module")
def sim() -> Simulation:
    return Simulation()


def _run(sim: Simulation, program, limit: int = 199) -> tuple[str | None, int]:
    for step in range(limit):
        try:
            action = next(program)
        except StopIteration as end:
            return end.value, step
        sim.step(action[ARM], float(action[GRIP]), action[BASE])
    return "time", limit


@pytest.mark.parametrize("task", TASKS)
def test_each_skill_solves_its_task_in_time(sim: Simulation, task: str) -> None:
    for index in range(3):
        episode = generate_episode(task, "train", 0, index)
        sim.reset(episode.scene)
        run = (
            oracle_doors.open_container if task.startswith("open") else oracle_doors.close_container
        )
        failure, _ = _run(sim, run(Robot(sim), episode.marker))
        opening = sim.joint_position(MARKERS[episode.marker])
        assert failure is None and is_at_rest(sim)
        if task.startswith("open"):
            assert opening > (0.40 if "drawer" in task else 1.1708)
        else:
            assert opening < 0.05


def test_a_rehearsal_leaves_the_world_alone_and_foretells_it(sim: Simulation) -> None:
    episode = generate_episode("open_fridge", "train", 0, 0)
    sim.reset(episode.scene)
    before = sim.data.qpos.copy(), sim.model.eq_data.copy(), sim.force_accum
    way = doors_fridge.TOWS[0]
    make = lambda robot: doors_fridge.tow_open(robot, episode.marker, way)  # noqa: E731
    outcome = rehearse(
        Robot(sim), make, lambda other: other.joint_position(doors_fridge.JOINT) > 1.0, 199
    )
    assert outcome.failure is None
    assert np.array_equal(sim.data.qpos, before[0]) and np.array_equal(sim.model.eq_data, before[1])
    assert sim.force_accum == before[2] and not sim.is_holding

    with twin(sim) as other:
        failure, foretold = _run(other, make(Robot(other)))
        end = other.data.qpos.copy()
    assert (failure, foretold) == _run(sim, make(Robot(sim)))
    assert foretold == outcome.steps
    assert np.array_equal(sim.data.qpos, end)


def test_a_rehearsal_that_takes_too_long_fails(sim: Simulation) -> None:
    episode = generate_episode("open_fridge", "train", 0, 0)
    sim.reset(episode.scene)
    make = lambda robot: doors_fridge.tow_open(robot, episode.marker, doors_fridge.TOWS[0])  # noqa: E731
    assert rehearse(Robot(sim), make, lambda other: True, 5).failure == "too slow"


def test_the_led_point_goes_where_it_is_led(sim: Simulation) -> None:
    """The base action, put into a rigid body's velocity, moves the point as was asked for."""
    episode = generate_episode("open_fridge", "train", 0, 0)
    sim.reset(episode.scene)
    point, wanted = np.array([0.6, -0.1]), np.array([0.12, -0.2])
    forward, turn = lead(sim, point, wanted)
    speed, rate, yaw = forward * 1.0, turn * 2.5, sim.base_pose[2]
    axes = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    moved = axes @ np.array([speed - rate * point[1], rate * point[0]])
    assert np.allclose(moved, wanted, atol=1e-9)
