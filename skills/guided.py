"""GuidedEnv: a skill's task in which oracle and policy take turns, and the oracle says what to do.

    policy, policy, ... | oracle, oracle, ... | policy, ...      who moves the robot in an episode
            state the policy got into ---> oracle plans anew from there, every action is a label

What DAgger wants (Ross et al. 2011), labels on the states that the policy itself visits, with an
oracle that plans motions: it is started where the policy leaves off, and its own steps are what is
imitated. While the policy moves the robot only the stop slot has a label, as whether the goal is
reached needs no plan. The wrapped environment's spaces stay; an observation gets two more entries:

    oracle_action  [A]  what the oracle does now, in [-1, 1]
    oracle_weight  [A]  weight of each slot's label, 0: there is none

Whoever collects goes on choosing actions; in the oracle's turns they are not carried out. No torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from rearrange.skills.body import Body
from rearrange.skills.oracle import skill_program
from rearrange.skills.skill import ACTION_SIZE, STOP, Program
from rearrange.tasks.gym_factory import make_gym
from rearrange.tasks.registry import TASKS, make_task

LABEL, WEIGHT = "oracle_action", "oracle_weight"
LABELS = (LABEL, WEIGHT)
_TASK_OF_ID = {gym_id: task for task, gym_id in TASKS.items()}


@dataclass(frozen=True, kw_only=True)
class GuideCfg:
    """How the two share an episode. Turns are log-uniform in length."""

    policy_turn: tuple[int, int] = (4, 80)
    """Shortest and longest turn of the policy (control steps)."""
    oracle_turn: tuple[int, int] = (20, 200)
    """The same of the oracle."""
    watch_every: int = 8
    """In every so-manieth environment the policy is alone: its success is what is reported."""
    stop_weight: float = 4.0
    """Weight of the labels that say stop, which are rare."""
    goal_steps: int = 3
    """After so many steps at the goal the label says stop; on the goal's edge there is none."""
    linger_steps: int = 4
    """The oracle waits so long at the goal before it stops, for the sake of the labels."""
    alone_steps: int = 1500
    """In its first so many steps an environment is the oracle's alone: the policy cannot do a thing
    yet, and at once drops what it holds."""
    time_factor: float = 1.5
    """Of the task's time limit: an episode that changes hands takes longer."""

    def __post_init__(self) -> None:
        for name in ("policy_turn", "oracle_turn"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise ValueError(f"{name} must be two growing numbers from 1, got {low}, {high}")


class GuidedEnv(gymnasium.Wrapper):
    """A skill task with the oracle at hand.

    Args:
        env: RearrangeEnv of a skill, with the full action space.
        is_watched: the policy is alone; there are labels for stop only.

    `info["success"]` is reported only for episodes in which the oracle did nothing.
    """

    def __init__(self, env: gymnasium.Env, cfg: GuideCfg, is_watched: bool = False) -> None:
        super().__init__(env)
        if env.action_space.shape != (ACTION_SIZE,):
            raise ValueError(f"the oracle needs the full action space, got {env.action_space}")
        self._world, self._cfg, self._is_watched = env.unwrapped, cfg, is_watched
        slots = (ACTION_SIZE,)
        self.observation_space = Dict(
            {
                **env.observation_space.spaces,
                LABEL: Box(-1.0, 1.0, slots, np.float32),
                WEIGHT: Box(0.0, cfg.stop_weight, slots, np.float32),
            }
        )
        self._uses_stop = self._world.task.rules.is_stop_used
        self._program: Program | None = None  # the oracle's, while it has its turn
        self._num_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Starts an episode; who has the first turn is drawn."""
        observation, info = super().reset(seed=seed, options=options)
        episode = self._world.episode
        self._rng = np.random.default_rng([episode.seed, episode.index, 23])
        self._end_program()
        self._goal_steps = self._lingered = 0
        self._was_guided = False
        self._left = 0
        self._next_turn(is_oracle=self._rng.random() < 0.5)
        return self._labelled(observation), info

    def step(self, action):
        """Carries out the oracle's action in its turns, else `action`."""
        is_guided = self._program is not None
        if is_guided:
            action = self._done if self._done is not None else self._label
        self._was_guided |= is_guided
        observation, reward, terminated, truncated, info = super().step(action)
        self._left -= 1
        self._num_steps += 1
        if self._left <= 0 and not (terminated or truncated):
            self._next_turn(is_oracle=not is_guided)
        if self._was_guided:
            info = {name: value for name, value in info.items() if name != "success"}
        return self._labelled(observation), reward, terminated, truncated, info

    # --- private -------------------------------------------------------------------------------

    def _next_turn(self, is_oracle: bool) -> None:
        self._end_program()
        is_alone = self._num_steps < self._cfg.alone_steps
        is_oracle = (is_oracle or is_alone) and not self._is_watched
        low, high = self._cfg.oracle_turn if is_oracle else self._cfg.policy_turn
        self._left = round(float(np.exp(self._rng.uniform(np.log(low), np.log(high)))))
        if is_oracle:
            self._body = Body(self._world.sim)
            self._program = skill_program(self._body, self._world.episode)

    def _end_program(self) -> None:
        if self._program is not None:
            self._program.close()
        self._program, self._done = None, None

    def _labelled(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The observation with the labels of the state that the world is in now."""
        self._label = np.zeros(ACTION_SIZE, np.float32)
        weight = np.zeros(ACTION_SIZE, np.float32)
        if self._program is not None:
            self._advance(weight)
        if self._uses_stop:
            self._label_stop(weight)
        return {**observation, LABEL: np.clip(self._label, -1.0, 1.0), WEIGHT: weight}

    def _advance(self, weight: np.ndarray) -> None:
        """The oracle's next action as the label; its turn ends if it gives up."""
        try:
            if self._done is None:
                self._label = next(self._program)
                weight[:STOP] = 1.0
                self._label[STOP] = -1.0
                return
        except StopIteration as end:
            if end.value is not None:  # it gives up: whatever the policy does may free the robot
                self._end_program()
                self._left = self._cfg.policy_turn[0]
                return
        # Done: stay until the stop labels are many enough, then stop.
        self._lingered += 1
        self._done = self._body.action(self._world.sim.arm_target)
        self._done[STOP] = 1.0 if self._lingered > self._cfg.linger_steps else -1.0
        self._label = self._done.copy()
        weight[:STOP] = 1.0
        self._left = max(self._left, 2)

    def _label_stop(self, weight: np.ndarray) -> None:
        """+1 well inside the goal, -1 outside, nothing at its edge."""
        is_there = self._world.task.is_goal_reached(self._world.sim)
        self._goal_steps = self._goal_steps + 1 if is_there else 0
        if not is_there:
            self._label[STOP], weight[STOP] = -1.0, 1.0
        elif self._goal_steps >= self._cfg.goal_steps:
            self._label[STOP], weight[STOP] = 1.0, self._cfg.stop_weight


def make_guided(
    index: int, env_id: str, num_envs: int, kwargs: dict[str, Any], cfg: GuideCfg
) -> GuidedEnv:
    """The environment of worker `index` of `num_envs`, as `make_gym` makes it, with the oracle."""
    limit = make_task(_TASK_OF_ID[env_id]).rules.max_episode_steps
    limited = {"max_episode_steps": round(cfg.time_factor * limit)}
    env = make_gym(index, env_id, num_envs, limited | kwargs)
    is_watched = index % cfg.watch_every == cfg.watch_every - 1
    return GuidedEnv(env, cfg, is_watched)
