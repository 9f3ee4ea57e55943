"""Place: leave the held object at its goal and bring the end effector back to rest (hab-spec 4.5).

Grasp commands are ignored once the object is released. Success ends the episode; there is no
stop: its slot is ignored. The force penalty is that of Pick: the released configuration sets its
cap to 0 and so has none.
"""

from __future__ import annotations

from typing import Any

from rearrange.errors import UserError
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec, Target
from rearrange.tasks.rules.predicates import ee_to_rest, object_to_goal
from rearrange.tasks.rules.rewards import Progress
from rearrange.tasks.rules.task import EE_AT_REST, Rules, Task

AT_GOAL = 0.15  # m, object to goal
DISTANCE_COEF = 2.0
PLACE_REWARD = 5.0
RULES = Rules(
    max_episode_steps=300, slack=-0.005, force_coef=1e-4, force_cap=0.01, force_end_penalty=1.0,
    max_accum=10_000.0, max_instant=10_000.0, is_stop_used=False,
)  # fmt: skip
SENSORS = ("joint", "is_holding", "relative_resting_position", "obj_goal_sensor")


class PlaceTask(Task):
    """Success: nothing held, object within 0.15 m of its goal, end effector as near to rest."""

    def __init__(self, name: str) -> None:
        super().__init__(name, RULES, SENSORS)
        self._target: Target | None = None
        self._is_released = False
        self._is_returning = False
        self._closer = Progress(decimals=3)

    def check_episode(self, episode: Any) -> None:
        super().check_episode(episode)
        if not episode.start_holding:
            raise UserError(f"an episode of {self.name} must start with its object in the hand")

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        self._target = episode.targets[episode.target_index]
        self._is_released = self._is_returning = False
        self._closer.forget()
        self._closer.step(object_to_goal(sim, self._target))

    def grip_command(self, sim: Simulation, grip: float | None) -> float | None:
        return -1.0 if self._is_released else grip

    def progress(self, sim: Simulation) -> tuple[float, str | None]:
        distance = self._distance(sim)
        is_holding = sim.is_holding
        is_at_goal = distance < self.success_scale * AT_GOAL
        is_returning = is_at_goal and not is_holding
        reward = 0.0
        if not is_holding and not self._is_released:
            self._is_released = True
            if not is_returning:
                return 0.0, "dropped"
            reward = PLACE_REWARD
        if is_returning != self._is_returning:
            self._is_returning = is_returning
            self._closer.forget()
        gained = self._closer.step(ee_to_rest(sim) if is_returning else distance)
        if is_returning or not is_at_goal:
            reward += DISTANCE_COEF * gained
        return reward, None

    def _distance(self, sim: Simulation) -> float:
        assert self._target is not None
        return object_to_goal(sim, self._target)

    def is_goal_reached(self, sim: Simulation) -> bool:
        scale = self.success_scale
        is_at_goal = self._distance(sim) < scale * AT_GOAL
        return not sim.is_holding and is_at_goal and ee_to_rest(sim) < scale * EE_AT_REST
