"""Shared by all tasks: time and force limits, broken holds, and the reward of a step.

    reward = slack - force penalty - other penalties + the task's own progress + success reward

A task is one object per environment, reset for each episode. It reads the simulation after a
control step, and changes it only to release a broken hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rearrange.checked_arguments import whole
from rearrange.errors import UserError
from rearrange.sim.home.furniture import MARKERS
from rearrange.sim.homes.layout import make_layout
from rearrange.sim.robot.fetch import ARM_JOINTS
from rearrange.sim.scene import check_places
from rearrange.sim.simulation import Simulation
from rearrange.system.checked_json import quoted
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.rewards import force_penalty

HANDLE_SENSORS = ("marker_rel_pos", "marker_js")
"""HAB's tasks had them in Habitat-lab 0.2.2, and have them here as an option."""
MIN_SUCCESS_SCALE, MIN_FORCE_SCALE = 0.5, 0.1
EE_AT_REST = 0.15  # m, end effector to its resting point


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Numbers of a task (hab-spec section 4)."""

    max_episode_steps: int
    slack: float = 0.0
    """Added on every step."""
    success_reward: float = 10.0
    force_coef: float = 0.0
    """Penalty per newly accumulated newton."""
    force_cap: float = 0.0
    """Largest force penalty of a step."""
    force_end_penalty: float = 0.0
    max_accum: float = math.inf
    """N; more accumulated force ends the episode."""
    max_instant: float = math.inf
    """N; a larger contact force ends the episode."""
    violation_penalty: float = 0.0
    violation_ends: bool = False
    """Whether a broken hold ends the episode. It always drops what was held."""
    is_stop_used: bool = True
    """Whether stop ends the episode and success needs it; else success ends the episode."""


class Outcome(NamedTuple):
    """The result of a control step."""

    reward: float
    success: bool
    terminated: bool
    failure: str | None
    """Why a terminated episode failed: wrong_object, dropped, hold_violation, force,
    stop_without_success."""


def check_task(name: str, task: Any) -> Task:
    """Checks the rules of a user-defined task.

    Raises UserError if they are not a `Task`, a method is missing, or the constructor of `Task` was
    not called.
    """
    if not isinstance(task, Task):
        raise UserError(f"the rules of task '{name}' must return a Task, got {type(task).__name__}")
    kind = type(task)
    for method in ("start", "progress", "is_goal_reached"):
        if getattr(kind, method) is getattr(Task, method):
            raise UserError(f"{kind.__name__}, the rules of task '{name}', has no method {method}")
    if not hasattr(task, "rules"):
        raise UserError(f"{kind.__name__}.__init__ must call that of Task: name, rules, sensors")
    if task.num_markers not in (0, 1, 2):
        raise UserError(
            f"num_markers of task '{name}' must be 0, 1 (the episode's own) or 2 (those of the "
            f"home's tasks), got {quoted(task.num_markers)}"
        )
    whole("num_targets", task.num_targets, 1)
    for what in ("sensors", "handle_sensors"):
        names: Any = getattr(task, what)
        parts = list(names) if type(names) in (list, tuple) else [None]
        if not all(isinstance(one, str) for one in parts):
            raise UserError(
                f"{what} of task '{name}' must be a tuple of sensors' names, got {quoted(names)}"
            )
        setattr(task, what, tuple(parts))
    return task


def check_outcome(
    sim: Simulation, episode: EpisodeSpec | None, num_steps: int, outcome: Outcome
) -> None:
    """Raises RuntimeError for a broken world instead of repairing it silently.

    MuJoCo itself resets a diverged world and only counts a warning. Raises UserError for a reward
    that is not finite.
    """
    if sim.is_sound and math.isfinite(outcome.reward):
        return
    assert episode is not None
    place = (
        f"task {episode.task}, split {episode.split}, seed {episode.seed}, "
        f"episode {episode.index}, step {num_steps}"
    )
    if sim.is_sound:
        raise UserError(f"the reward must be a finite number, got {outcome.reward}: {place}")
    what = f"MuJoCo warnings {sim.data.warning.number.tolist()}, or positions not finite"
    raise RuntimeError(f"the simulation is broken ({what}): {place}")


def _scale(name: str, value: Any, least: float) -> float:
    if not _is_number(value) or not least <= value <= 1.0:
        raise UserError(f"{name} must lie in [{least}, 1], got {quoted(value)}")
    return float(value)


def _check_numbers(name: str, values: Any, count: int) -> None:
    """Raises UserError unless they are so many, finite."""
    try:
        is_right = len(values) == count and all(_is_number(x) and math.isfinite(x) for x in values)
    except TypeError:  # a single number, or none
        is_right = False
    if not is_right:
        raise UserError(f"{name} must be {count} finite numbers, got {quoted(values)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


class Task:
    """Base of the tasks. A subclass fills in `start`, `progress` and `is_goal_reached`."""

    def __init__(
        self, name: str, rules: Rules, sensors: tuple[str, ...], num_targets: int = 1,
        num_markers: int = 0, handle_sensors: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.name, self.rules, self.sensors = name, rules, sensors
        self.handle_sensors = handle_sensors
        """Optional sensors of an environment, besides `sensors`."""
        self.num_targets, self.num_markers = num_targets, num_markers
        self.success_scale = 1.0
        """Factor on the benchmark's success thresholds of distances, angles and joints: below 1 for
        training only."""
        self.force_scale = 1.0
        """Factor on the benchmark's limits of force: below 1 for training only."""
        self.stages: dict[str, bool] = {}
        """Stages reached so far in the episode; only the home tasks have some."""

    def set_scales(self, success_scale: Any, force_scale: Any) -> None:
        """Sets the two factors. Raises UserError for a value out of range."""
        self.success_scale = _scale("success_scale", success_scale, MIN_SUCCESS_SCALE)
        self.force_scale = _scale("force_scale", force_scale, MIN_FORCE_SCALE)

    def check_episode(self, episode: Any) -> None:
        """Raises UserError for an episode of another task, and for what is none."""
        if not isinstance(episode, EpisodeSpec):
            raise UserError(f"an episode must be an EpisodeSpec, got {type(episode)}")
        if episode.task != self.name:
            raise UserError(f"episode must be one of task {self.name}, got {episode.task!r}")
        num_targets = len(episode.targets)
        if self.num_targets > 1 and num_targets != self.num_targets:
            raise UserError(f"{self.name} has {self.num_targets} targets, got {num_targets}")
        if not num_targets:
            raise UserError(f"an episode of {self.name} must have a target, got none")
        whole("target_index", episode.target_index, 0, num_targets - 1)
        if self.num_markers == 1 and episode.marker is None:
            raise UserError(f"an episode of {self.name} must name its marker, got none")
        if episode.marker not in (None, *MARKERS):
            raise UserError(f"marker must be one of {', '.join(MARKERS)}; got {episode.marker!r}")
        scene = episode.scene
        for target in episode.targets:
            whole(f"the object of {target.name}", target.object, 0, len(scene.objects) - 1)
            _check_numbers(f"the start of {target.name}", target.start, 3)
            _check_numbers(f"the goal of {target.name}", target.goal, 3)
        for placed in scene.objects:
            _check_numbers(f"the position of {placed.kind}", placed.pos, 3)
            _check_numbers(f"the quaternion of {placed.kind}", placed.quat, 4)
        _check_numbers("base", scene.base, 3)
        _check_numbers("arm", scene.arm, len(ARM_JOINTS))
        for joint, value in dict(scene.joints).items():
            _check_numbers(f"joint {joint}", [value], 1)
        check_places(scene, make_layout(scene.layout_id, scene.home_digest))

    def check_empty_handed(self, episode: EpisodeSpec) -> None:
        """Raises UserError for an episode that starts with its object in the hand."""
        if episode.start_holding:
            raise UserError(f"an episode of {self.name} must start with an empty hand")

    # --- to be filled in -----------------------------------------------------------------------

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        """A new episode begins; the world is already in its start state."""
        raise NotImplementedError

    def progress(self, sim: Simulation) -> tuple[float, str | None]:
        """The task's own reward of this step, and the mishap that ends the episode, if any."""
        raise NotImplementedError

    def is_goal_reached(self, sim: Simulation) -> bool:
        """Whether the goal holds now."""
        raise NotImplementedError

    def grip_command(self, sim: Simulation, grip: float | None) -> float | None:
        """The grip command that is carried out; None leaves the grip unchanged."""
        return grip

    def planner_facts(self) -> Sequence[tuple[str, ...]]:
        """Facts for the planner that the simulation does not show: predicate and entities each.

        Such as ("pressed", "cab_push_point_5").
        """
        return ()

    # --- shared --------------------------------------------------------------------------------

    def _progress(self, sim: Simulation) -> tuple[float, str | None]:
        """`progress`. Raises UserError unless it is a pair."""
        gained: Any = self.progress(sim)
        try:
            reward, failure = gained
        except (TypeError, ValueError):
            raise UserError(
                f"{type(self).__name__}.progress must return a reward and the failure that ends "
                f"the episode, or None, got {gained!r}"
            ) from None
        return reward, failure

    def step(self, sim: Simulation, is_stop: bool) -> Outcome:
        """Evaluates the control step just done."""
        rules = self.rules
        reward = rules.slack - force_penalty(sim.force_added, rules.force_coef, rules.force_cap)
        is_violated = sim.hold_violation
        is_forced = (
            sim.force_accum > self.force_scale * rules.max_accum
            or sim.force_instant > self.force_scale * rules.max_instant
        )
        if is_violated:
            reward -= rules.violation_penalty
            sim.drop()
        if is_forced:
            reward -= rules.force_end_penalty
        gained, mishap = self._progress(sim)
        reward += gained
        is_stop = is_stop and rules.is_stop_used
        failure = None
        if is_forced:
            failure = "force"
        elif is_violated and (rules.violation_ends or mishap is not None):
            failure = "hold_violation"
        elif mishap is not None:
            failure = mishap
        success = (
            failure is None
            and not is_violated
            and (is_stop or not rules.is_stop_used)
            and self.is_goal_reached(sim)
        )
        if success:
            reward += rules.success_reward
        elif is_stop and failure is None:
            failure = "stop_without_success"
        success = bool(success)  # a user's own may be numpy's
        return Outcome(float(reward), success, success or failure is not None, failure)
