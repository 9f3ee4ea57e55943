"""GuidedEnv: a skill's task in which a teacher labels every step with its own action.

    policy, policy, ... | teacher, teacher, ... | policy, ...      who acts in an episode
        every state of both ---> labelled with the teacher's action

This is what DAgger needs (Ross et al. 2011): labels in states that the policy itself visits. The
teacher is a `Servo`, whose rules give an action in every state. The wrapped environment's spaces
stay; an observation gets two more entries:

    oracle_action  [A]  what the teacher would do now, in [-1, 1]
    oracle_weight  [A]  weight of each slot's label; 0: no label

The collector always sends the policy's actions; during the teacher's turns they are not executed.
Nor is a stop that the teacher would not call: it would end the episode with a single label for that
state, whereas the policy now gets as many as it needs to learn the difference. No torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import ACTION_SIZE, GRIP, STOP, checked_action
from rearrange.skills.teacher.guide_cfg import GuideCfg
from rearrange.skills.teacher.retreat import ROLL
from rearrange.skills.teacher.rules import teacher_for
from rearrange.tasks.gym_factory import find_id, make_gym
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.tasks.rules.rulebook import make_task

if TYPE_CHECKING:
    from rearrange.tasks.env import RearrangeEnv

LABEL, WEIGHT = "oracle_action", "oracle_weight"
LABELS = (LABEL, WEIGHT)


class GuidedEnv(gymnasium.Wrapper):
    """A skill task with its teacher.

    Args:
        env: RearrangeEnv of a skill, with the full action space.
        is_watched: the policy acts alone.

    `age` counts its steps; restore it when the environment is recreated.
    `info["success"]` is reported only for episodes in which the teacher did nothing.
    """

    def __init__(self, env: gymnasium.Env, cfg: GuideCfg, is_watched: bool = False) -> None:
        super().__init__(env)
        if env.action_space.shape != (ACTION_SIZE,):
            raise ValueError(f"the teacher needs the full action space, got {env.action_space}")
        self._world, self._cfg = cast("RearrangeEnv", env.unwrapped), cfg
        self._is_watched = is_watched
        assert isinstance(env.observation_space, Dict)
        slots = (ACTION_SIZE,)
        most = max(1.0, cfg.stop_weight, cfg.release_weight, cfg.retreat_weight)
        self.observation_space = Dict(
            {
                **env.observation_space.spaces,
                LABEL: Box(-1.0, 1.0, slots, np.float32),
                WEIGHT: Box(0.0, most, slots, np.float32),
            }
        )
        self._uses_stop = self._world.task.rules.is_stop_used
        self.age = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Starts an episode; who acts first is random."""
        observation, info = super().reset(seed=seed, options=options)
        episode = self._world.episode
        assert episode is not None
        self._rng = np.random.default_rng([episode.seed, episode.index, 23])
        self._teacher = teacher_for(Robot(self._world.sim), episode)
        self._was_guided = False
        self._next_turn(is_guided=self._rng.random() < 0.5)
        return self._labelled(observation), info

    def step(self, action):
        """Carries out the teacher's action in its turns, else `action`."""
        if self._is_guided:
            action = self._label
            self._was_guided = True
        elif self._uses_stop and not self._is_watched and action[STOP] > 0.0 > self._label[STOP]:
            action = np.array(action)
            action[STOP] = -1.0
            self._was_guided = True
        self._teacher.done = action
        observation, reward, terminated, truncated, info = super().step(action)
        self._left -= 1
        self.age += 1
        if self._left <= 0:
            self._next_turn(not self._is_guided)
        if self._was_guided:
            info = {name: value for name, value in info.items() if name != "success"}
        return self._labelled(observation), reward, terminated, truncated, info

    # --- private -------------------------------------------------------------------------------

    def _next_turn(self, is_guided: bool) -> None:
        is_alone = self.age < self._cfg.alone_steps
        self._is_guided = (is_guided or is_alone) and not self._is_watched
        low, high = self._cfg.teacher_turn if self._is_guided else self._cfg.policy_turn
        self._left = round(float(np.exp(self._rng.uniform(np.log(low), np.log(high)))))

    def _labelled(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The observation with the labels of the current state."""
        action = checked_action(self._teacher.act(), f"the teacher of {self._world.task.name}")
        self._label = np.minimum(np.maximum(action, -1.0), 1.0).astype(np.float32)
        weight = np.ones(ACTION_SIZE, np.float32)
        if getattr(self._teacher, "is_turning_back", False):  # one's own need not tell
            weight[ROLL] = self._cfg.retreat_weight
        if self._world.task.grip_command(self._world.sim, 1.0) is None:
            weight[GRIP] = 0.0  # the gripper keeps its state, whatever the command
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
    limit = make_task(TASK_OF_ID[find_id(env_id)]).rules.max_episode_steps
    limited = {"max_episode_steps": round(cfg.time_factor * limit)}
    env = make_gym(index, env_id, num_envs, limited | kwargs)
    is_watched = index % cfg.watch_every == cfg.watch_every - 1
    return GuidedEnv(env, cfg, is_watched)
