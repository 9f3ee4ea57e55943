"""Open and close: move a drawer or the fridge door, hand back to rest, then stop (hab-spec 4.6)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from rearrange.errors import UserError
from rearrange.sim.home.furniture import DRAWERS, MARKERS
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.predicates import ee_to_marker, ee_to_rest
from rearrange.tasks.rules.rewards import Progress
from rearrange.tasks.rules.task import EE_AT_REST, HANDLE_SENSORS, Rules, Task

FRIDGE = ("fridge_top_door",)  # the one with a handle that HAB names
TOLERANCE = 0.05  # m or rad
REACHED_REWARD = 5.0
GRASP_REWARD = 5.0
WRONG_GRASP_PENALTY = 5.0
MARKER_COEF = 1.0
SENSORS = ("joint", "ee_pos", "is_holding", "relative_resting_position")


@dataclass(frozen=True, kw_only=True)
class Articulation:
    """Constants of one of the four tasks."""

    rules: Rules
    target: float
    """m or rad."""
    is_opening: bool
    """Opening: the handle may be gripped, and opening further is fine. Closing: pushing only."""
    joint_coef: float
    joints: Collection[str]
    """Of its furniture; their handles are its markers."""
    rest_coef: float = 1.0  # of Open Drawer 10 (hab-spec 4.6)


class ArticulationTask(Task):
    """Success: joint as wanted, end effector within 0.15 m of rest, nothing held, stop called."""

    def __init__(self, name: str, spec: Articulation) -> None:
        self._spec = spec
        super().__init__(
            name, self._spec.rules, SENSORS, num_markers=1, handle_sensors=HANDLE_SENSORS
        )
        self._marker = self._joint = ""
        self._was_holding = self._has_gripped = self._has_reached = False
        self._joint_closer, self._handle_closer, self._rest_closer = (
            Progress(), Progress(), Progress(),
        )  # fmt: skip

    def check_episode(self, episode: Any) -> None:
        super().check_episode(episode)
        self.check_empty_handed(episode)
        joints = self._spec.joints
        if MARKERS[episode.handle] not in joints:
            known = " or ".join(marker for marker, joint in MARKERS.items() if joint in joints)
            raise UserError(f"the marker of {self.name} must be {known}, got {episode.handle!r}")

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        self._marker, self._joint = episode.handle, MARKERS[episode.handle]
        self._was_holding = self._has_gripped = self._has_reached = False
        for closer in (self._joint_closer, self._handle_closer, self._rest_closer):
            closer.forget()
        self._measure(sim)

    def grip_command(self, sim: Simulation, grip: float | None) -> float | None:
        return grip if self._spec.is_opening else None

    def _measure(self, sim: Simulation) -> tuple[float, float, float]:
        """Decreases of |joint - target|, of the distance to the handle and of that to rest."""
        return (
            self._joint_closer.step(abs(sim.joint_position(self._joint) - self._spec.target)),
            self._handle_closer.step(ee_to_marker(sim, self._marker)),
            self._rest_closer.step(ee_to_rest(sim)),
        )

    def progress(self, sim: Simulation) -> tuple[float, str | None]:
        spec = self._spec
        moved, reached_out, returned = self._measure(sim)
        is_reached, is_holding = self._is_reached(sim), sim.is_holding
        reward, mishap = 0.0, None
        if is_reached:
            reward += spec.rest_coef * returned
            if not self._has_reached:
                self._has_reached = True
                reward += REACHED_REWARD
        else:
            reward += spec.joint_coef * moved
            if not is_holding:
                reward += MARKER_COEF * reached_out
        if is_holding and not self._was_holding:
            if sim.held_marker != self._marker:
                reward -= WRONG_GRASP_PENALTY
                mishap = "wrong_object"
            elif not self._has_gripped:
                self._has_gripped = True
                reward += GRASP_REWARD
        self._was_holding = is_holding
        return reward, mishap

    def _is_reached(self, sim: Simulation) -> bool:
        position, tolerance = sim.joint_position(self._joint), self.success_scale * TOLERANCE
        if self._spec.is_opening:
            return position >= self._spec.target - tolerance
        return abs(position) < tolerance

    def is_goal_reached(self, sim: Simulation) -> bool:
        if not self._is_reached(sim) or sim.is_holding:
            return False
        return ee_to_rest(sim) < self.success_scale * EE_AT_REST


_CLOSING = Rules(max_episode_steps=200, violation_penalty=10.0, violation_ends=True)
OPEN_DRAWER = partial(ArticulationTask, spec=Articulation(
    rules=Rules(
        max_episode_steps=200, max_instant=10_000.0, force_end_penalty=10.0,
        violation_penalty=1.0, violation_ends=True,
    ),
    target=0.45, is_opening=True, joint_coef=10.0, joints=DRAWERS, rest_coef=10.0,
))  # fmt: skip
OPEN_FRIDGE = partial(ArticulationTask, spec=Articulation(
    rules=Rules(
        max_episode_steps=200, max_instant=10_000.0, max_accum=20_000.0,
        force_end_penalty=10.0, violation_penalty=1.0, violation_ends=True,
    ),
    target=1.2208, is_opening=True, joint_coef=10.0, joints=FRIDGE,
))  # fmt: skip
CLOSE_DRAWER = partial(ArticulationTask, spec=Articulation(
    rules=_CLOSING, target=0.0, is_opening=False, joint_coef=10.0, joints=DRAWERS,
))  # fmt: skip
CLOSE_FRIDGE = partial(ArticulationTask, spec=Articulation(
    rules=_CLOSING, target=0.0, is_opening=False, joint_coef=10.0, joints=FRIDGE,
))  # fmt: skip
