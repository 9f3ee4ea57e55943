"""Tries a program before acting, on a twin of the simulation.

    simulation --twin--> copy of the current world --program--> outcome, steps, forces

Physics is deterministic: what works on the twin works in the world, if nothing else acts on it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

import mujoco

from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import ARM, BASE, GRIP, Program

Variant = TypeVar("Variant")
FORCE_STEPS = 0.01  # control steps per newton of accumulated force
MAX_FORCE = 5000.0  # N, instant; tasks end at 10000
_SPARE_DATA: WeakKeyDictionary[Simulation, mujoco.MjData] = WeakKeyDictionary()


@dataclass(frozen=True)
class Outcome:
    """Outcome of a rehearsal. `cost`: control steps and a little for forces; inf: failed."""

    cost: float
    steps: int
    failure: str | None


@contextmanager
def twin(sim: Simulation) -> Iterator[Simulation]:
    """A simulation in the same state, to be stepped within the block; `sim` does not change.

    The twin shares the model; the few numbers that gripping changes are restored at the end.
    """
    model = sim.model
    grips, masks = model.eq_data.copy(), model.geom_contype.copy()
    other = copy.copy(sim)
    if sim not in _SPARE_DATA:
        _SPARE_DATA[sim] = mujoco.MjData(model)
    other.data = mujoco.mj_copyData(_SPARE_DATA[sim], model, sim.data) or _SPARE_DATA[sim]
    other.arm_target = sim.arm_target.copy()
    other._suction, other._forces = copy.copy(sim._suction), copy.copy(sim._forces)
    try:
        yield other
    finally:
        model.eq_data[:], model.geom_contype[:] = grips, masks


def rehearse(
    robot: Robot,
    make: Callable[[Robot], Program],
    is_good: Callable[[Simulation], bool],
    max_steps: int,
) -> Outcome:
    """Runs a program on a twin for at most `max_steps` control steps; `is_good` judges the end."""
    with twin(robot.sim) as sim:
        program, steps, before = make(Robot(sim)), 0, sim.force_accum
        while True:
            try:
                action = next(program)
            except StopIteration as end:
                if end.value is None and not is_good(sim):
                    return Outcome(float("inf"), steps, "did not last")
                cost = steps + FORCE_STEPS * (sim.force_accum - before)
                return Outcome(cost if end.value is None else float("inf"), steps, end.value)
            if steps >= max_steps:
                return Outcome(float("inf"), steps, "too slow")
            sim.step(action[ARM], float(action[GRIP]), action[BASE])
            steps += 1
            if sim.force_instant > MAX_FORCE or (sim.is_holding and sim.hold_violation):
                return Outcome(float("inf"), steps, "too rough")


def best_of(
    robot: Robot,
    variants: Iterable[Variant],
    make: Callable[[Robot, Variant], Program],
    is_good: Callable[[Simulation], bool],
    max_steps: int,
    enough: int,
) -> Variant | None:
    """The cheapest variant, or None; the first within `enough` steps is taken at once."""
    best, best_cost = None, float("inf")
    for variant in variants:
        limit = int(min(max_steps, best_cost))
        outcome = rehearse(robot, lambda other, v=variant: make(other, v), is_good, limit)
        if outcome.cost < best_cost:
            best, best_cost = variant, outcome.cost
        if best_cost <= enough:
            break
    return best
