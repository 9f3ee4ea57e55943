"""GuidedEnv: a skill's task in which a teacher says at every step what it would do.

    policy, policy, ... | teacher, teacher, ... | policy, ...      who moves the robot in an episode
        every state, whoever led to it ---> the teacher's action is its label

What DAgger wants (Ross et al. 2011): labels on the states that the policy itself visits. The
teacher is a `Servo`, whose rules have an answer in every state. The wrapped environment's spaces
stay; an observation gets two more entries:

    oracle_action  [A]  what the teacher does now, in [-1, 1]
    oracle_weight  [A]  weight of each slot's label, 0: there is none

Whoever collects goes on choosing actions; in the teacher's turns they are not carried out.
No torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from rearrange.skills.body import Body
from rearrange.skills.skill import ACTION_SIZE, GRIP, STOP
from rearrange.skills.teacher import teacher_for
from rearrange.tasks.gym_factory import make_gym
from rearrange.tasks.registry import TASKS, make_task

LABEL, WEIGHT = "oracle_action", "oracle_weight"
LABELS = (LABEL, WEIGHT)
_TASK_OF_ID = {gym_id: task for task, gym_id in TASKS.items()}


@dataclass(kw_only=True)
class GuideCfg:
    """How the two share an episode. Turns are log-uniform in length."""

    policy_turn: list[int] = field(default_factory=lambda: [4, 60])
    """Shortest and longest turn of the policy (control steps)."""
    teacher_turn: list[int] = field(default_factory=lambda: [20, 120])
    """The same of the teacher."""
    watch_every: int = 8
    """In every so-manieth environment the policy is alone: its success is what is reported."""
    stop_weight: float = 2.0
    """Weight of the labels that say stop, which are rare. Much more, and it is called too early."""
    release_weight: float = 12.0
    """The same of the labels that say let go: one step in an episode."""
    alone_steps: int = 2500
    """In its first so many steps an environment is the teacher's alone: the policy cannot do a
    thing yet, and at once drops what it holds."""
    time_factor: float = 1.5
    """Of the task's time limit: an episode that changes hands takes longer."""

    def __post_init__(self) -> None:
        for name in ("policy_turn", "teacher_turn"):
            turn = getattr(self, name)
            if len(turn) != 2 or not 1 <= turn[0] <= turn[1]:
                raise ValueError(f"{name} must be two growing numbers from 1, got {turn}")
        if self.watch_every < 2:
            raise ValueError(f"watch_every must be at least 2, got {self.watch_every}")
        for name in ("stop_weight", "release_weight", "alone_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.time_factor < 1.0:
            raise ValueError(f"time_factor must be at least 1, got {self.time_factor}")


class GuidedEnv(gymnasium.Wrapper):
    """A skill task with its teacher at hand.

    Args:
        env: RearrangeEnv of a skill, with the full action space.
        is_watched: the policy is alone.

    `info["success"]` is reported only for episodes in which the teacher did nothing.
    """

    def __init__(self, env: gymnasium.Env, cfg: GuideCfg, is_watched: bool = False) -> None:
        super().__init__(env)
        if env.action_space.shape != (ACTION_SIZE,):
            raise ValueError(f"the teacher needs the full action space, got {env.action_space}")
        self._world, self._cfg, self._is_watched = env.unwrapped, cfg, is_watched
        slots = (ACTION_SIZE,)
        self.observation_space = Dict(
            {
                **env.observation_space.spaces,
                LABEL: Box(-1.0, 1.0, slots, np.float32),
                WEIGHT: Box(0.0, max(cfg.stop_weight, cfg.release_weight), slots, np.float32),
            }
        )
        self._uses_stop = self._world.task.rules.is_stop_used
        self._num_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Starts an episode; who has the first turn is drawn."""
        observation, info = super().reset(seed=seed, options=options)
        episode = self._world.episode
        self._rng = np.random.default_rng([episode.seed, episode.index, 23])
        self._teacher = teacher_for(Body(self._world.sim), episode)
        self._was_guided = False
        self._next_turn(is_guided=self._rng.random() < 0.5)
        return self._labelled(observation), info

    def step(self, action):
        """Carries out the teacher's action in its turns, else `action`."""
        if self._is_guided:
            action = self._label
            self._was_guided = True
        observation, reward, terminated, truncated, info = super().step(action)
        self._left -= 1
        self._num_steps += 1
        if self._left <= 0:
            self._next_turn(not self._is_guided)
        if self._was_guided:
            info = {name: value for name, value in info.items() if name != "success"}
        return self._labelled(observation), reward, terminated, truncated, info

    # --- private -------------------------------------------------------------------------------

    def _next_turn(self, is_guided: bool) -> None:
        is_alone = self._num_steps < self._cfg.alone_steps
        self._is_guided = (is_guided or is_alone) and not self._is_watched
        low, high = self._cfg.teacher_turn if self._is_guided else self._cfg.policy_turn
        self._left = round(float(np.exp(self._rng.uniform(np.log(low), np.log(high)))))

    def _labelled(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The observation with the labels of the state that the world is in now."""
        self._label = np.clip(self._teacher.act(), -1.0, 1.0).astype(np.float32)
        weight = np.ones(ACTION_SIZE, np.float32)
        if self._world.task.grip_command(self._world.sim, 1.0) is None:
            weight[GRIP] = 0.0  # the gripper keeps its state, whatever is said
        elif self._world.sim.is_holding and self._label[GRIP] < 0.0:
            weight[GRIP] = self._cfg.release_weight
        if not self._uses_stop:
            weight[STOP] = 0.0
        elif self._label[STOP] > 0.0:
            weight[STOP] = self._cfg.stop_weight
        return {**observation, LABEL: self._label, WEIGHT: weight}


def make_guided(
    index: int, env_id: str, num_envs: int, kwargs: dict[str, Any], cfg: GuideCfg
) -> GuidedEnv:
    """The environment of worker `index` of `num_envs`, as `make_gym` makes it, with the oracle."""
    limit = make_task(_TASK_OF_ID[env_id]).rules.max_episode_steps
    limited = {"max_episode_steps": round(cfg.time_factor * limit)}
    env = make_gym(index, env_id, num_envs, limited | kwargs)
    is_watched = index % cfg.watch_every == cfg.watch_every - 1
    return GuidedEnv(env, cfg, is_watched)


def compile_teacher(env_id: str, num_steps: int = 150) -> None:
    """Lets the teacher do the beginning of an episode, so that what it compiles is on the disk.

    Workers would else compile it all at once, each for itself, and be taken for hanging ones.
    """
    env = make_gym(0, env_id, 1, {"depth": False})
    env.reset(seed=0)
    teacher = teacher_for(Body(env.unwrapped.sim), env.unwrapped.episode)
    for _ in range(num_steps):
        if any(env.step(np.clip(teacher.act(), -1.0, 1.0))[2:4]):
            break
    env.close()
