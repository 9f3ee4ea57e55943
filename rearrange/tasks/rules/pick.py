"""Pick: take the target object and bring the end effector back to rest (hab-spec 4.4).

Release commands are ignored once something is held. Success ends the episode; there is no stop:
its slot is ignored. A handle counts as a wrong object (Habitat-lab holds on to it for the rest of
the episode).
"""

from __future__ import annotations

from typing import Any

from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.predicates import ee_to_object, ee_to_rest
from rearrange.tasks.rules.rewards import Progress
from rearrange.tasks.rules.task import EE_AT_REST, Rules, Task

DISTANCE_COEF = 2.0
PICK_REWARD = 2.0
WRONG_PENALTY = DROP_PENALTY = 0.5
RULES = Rules(
    max_episode_steps=300, slack=-0.005, force_coef=1e-4, force_cap=0.01, force_end_penalty=1.0,
    max_accum=10_000.0, max_instant=10_000.0, violation_penalty=1.0, is_stop_used=False,
)  # fmt: skip
SENSORS = ("joint", "is_holding", "relative_resting_position", "obj_start_sensor")


class PickTask(Task):
    """Success: the target is held and the end effector is within 0.15 m of rest."""

    def __init__(self, name: str) -> None:
        super().__init__(name, RULES, SENSORS)
        self._object = 0
        self._was_holding = False
        self._closer = Progress(decimals=3)

    def check_episode(self, episode: Any) -> None:
        super().check_episode(episode)
        self.check_empty_handed(episode)

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        self._object = episode.targets[episode.target_index].object
        self._was_holding = False
        self._closer.forget()
        self._closer.step(ee_to_object(sim, self._object))

    def grip_command(self, sim: Simulation, grip: float | None) -> float | None:
        return None if sim.is_holding else grip

    def progress(self, sim: Simulation) -> tuple[float, str | None]:
        is_holding = sim.is_holding
        was_holding, self._was_holding = self._was_holding, is_holding
        if is_holding and not was_holding:
            if sim.held_object != self._object:
                return -WRONG_PENALTY, "wrong_object"
            self._closer.forget()  # from now on the distance to rest counts
            self._closer.step(ee_to_rest(sim))
            return PICK_REWARD, None
        if was_holding and not is_holding:
            return -DROP_PENALTY, "dropped"
        distance = ee_to_rest(sim) if is_holding else ee_to_object(sim, self._object)
        return DISTANCE_COEF * self._closer.step(distance), None

    def is_goal_reached(self, sim: Simulation) -> bool:
        if sim.held_object != self._object:
            return False
        return ee_to_rest(sim) < self.success_scale * EE_AT_REST
