"""The long tasks: bring several objects to their goals, then stop (hab-spec section 3).

The reward leads through the targets in order: to the object, then with it to its goal. Once all
are placed there is no further reward (the released code wraps around and continues forever).
Success is the PDDL goal: every object within 0.3 m of its goal and nothing held on the step that
calls stop.

Time limits are those of Habitat-lab 0.2.2, which the VER paper used, not today's 3000 steps: there
the base drives 2.5 m/s, ours Fetch's 1.0 m/s.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rearrange.errors import UserError
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec, Target
from rearrange.tasks.rules.predicates import AT_GOAL, ee_to_object, holding, object_to_goal
from rearrange.tasks.rules.rewards import Progress
from rearrange.tasks.rules.task import HANDLE_SENSORS, Rules, Task

PLACED = 0.15  # m, for the reward
PICK_REWARD = PLACE_REWARD = 1.0
HOME_MARKERS = ("cab_push_point_5", "fridge_push_point")
"""Handles in the order of `marker_rel_pos` and `marker_js`."""
SENSORS = (
    "joint", "ee_pos", "is_holding", "relative_resting_position", "obj_start_sensor",
    "obj_goal_sensor", "obj_start_gps_compass", "obj_goal_gps_compass",
)  # fmt: skip


class HomeTask(Task):
    """Stages, sticky: at `stage_k_5` target k is held and all before it are placed; at `stage_k`
    the first k are placed and nothing is held."""

    def __init__(self, name: str, num_targets: int, max_steps: int) -> None:
        rules = Rules(
            max_episode_steps=max_steps, slack=-0.01, success_reward=100.0,
            force_end_penalty=10.0, max_accum=100_000.0, max_instant=10_000.0,
            violation_penalty=10.0,
        )  # fmt: skip
        super().__init__(name, rules, SENSORS, num_targets, len(HOME_MARKERS), HANDLE_SENSORS)
        self._targets: tuple[Target, ...] = ()
        self._current = 0  # the target that the reward is about
        self._was_held = self._was_picked = False
        self._closer = Progress()

    def check_episode(self, episode: Any) -> None:
        super().check_episode(episode)
        self.check_empty_handed(episode)
        if (count := len(episode.targets)) != self.num_targets:  # all count, even where one does
            raise UserError(f"{self.name} has one target, got {count}")

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        self._targets = episode.targets
        self._current = 0
        self._was_held = self._was_picked = False
        self._closer.forget()
        self._closer.step(ee_to_object(sim, self._targets[0].object))
        self.stages = {}
        for k in range(len(self._targets)):
            self.stages[f"stage_{k}_5"] = self.stages[f"stage_{k + 1}"] = False

    def progress(self, sim: Simulation) -> tuple[float, str | None]:
        self._update_stages(sim)
        if self._current == len(self._targets):
            return 0.0, None
        target = self._targets[self._current]
        is_held = holding(sim, target)
        reward = 0.0
        if is_held != self._was_held:
            self._was_held = is_held
            self._closer.forget()
            if is_held and not self._was_picked:
                self._was_picked = True
                reward += PICK_REWARD
        to_goal = object_to_goal(sim, target)
        if not is_held and to_goal < PLACED:
            self._current += 1
            self._was_held = self._was_picked = False
            self._closer.forget()
            if self._current < len(self._targets):
                self._closer.step(ee_to_object(sim, self._targets[self._current].object))
            return reward + PLACE_REWARD, None
        distance = to_goal if is_held else ee_to_object(sim, target.object)
        return reward + self._closer.step(distance), None

    def _update_stages(self, sim: Simulation) -> None:
        is_holding, stages = sim.is_holding, self.stages
        for k, target in enumerate(self._targets):  # the first k targets are placed
            if holding(sim, target):
                stages[f"stage_{k}_5"] = True
            if object_to_goal(sim, target) >= self.success_scale * AT_GOAL:
                return
            if not is_holding:
                stages[f"stage_{k + 1}"] = True

    def is_goal_reached(self, sim: Simulation) -> bool:
        return not sim.is_holding and all(
            object_to_goal(sim, target) < self.success_scale * AT_GOAL for target in self._targets
        )


TIDY_HOUSE = partial(HomeTask, num_targets=5, max_steps=5000)
PREPARE_GROCERIES = partial(HomeTask, num_targets=3, max_steps=4000)
SET_TABLE = partial(HomeTask, num_targets=2, max_steps=4500)
TIDY_HOUSE_EASY = partial(HomeTask, num_targets=2, max_steps=2000)
PREPARE_GROCERIES_EASY = partial(HomeTask, num_targets=1, max_steps=1500)
SET_TABLE_EASY = partial(HomeTask, num_targets=1, max_steps=2500)
REARRANGE_EASY = partial(HomeTask, num_targets=1, max_steps=3000)
