"""A trained policy at work: observations in, actions of the full action space out.

The memory and the previous action live here. What the policy gets as its previous action is what it
chose itself, before any clipping or masking, as in training.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from rearrange.errors import UserError
from rearrange.skills.skill_files import SkillFile
from rearrange.tasks.actions import ACTION_SIZE, action_slots
from rearrange.tasks.registry import TASK_OF_ID


class LearnedPolicy:
    """One trained skill.

    Args:
        is_sampling: draw actions as in training instead of taking the most likely ones.

    Raises UserError for a file of something else than a task of the home.
    """

    def __init__(self, skill: SkillFile, is_sampling: bool = False) -> None:
        if skill.env_id not in TASK_OF_ID:
            raise UserError(f"a skill of the home is needed, got one of {skill.env_id}")
        self.task = TASK_OF_ID[skill.env_id]
        self.camera_size = int(skill.env_kwargs.get("camera_size", 128))
        self.observation_delay = int(skill.env_kwargs.get("observation_delay", 1))
        self.action_space = str(skill.env_kwargs.get("action_space", "full"))
        self.observation = tuple(skill.observation)
        self._slots = list(action_slots(self.task, self.action_space))
        self._action = skill.action
        self._is_sampling = is_sampling
        self._policy = skill.build()
        self.reset()

    def reset(self, seed: int = 0, explore: bool = False) -> None:
        """Forgets what was seen.

        Args:
            seed: of the sampled actions.
            explore: samples until the next reset, even if it does not do so otherwise.
        """
        self._samples = self._is_sampling or explore
        self._state = torch.zeros(1, self._policy.state_size)
        self._prev_action = torch.zeros(1, self._action.size)
        self._is_first = torch.ones(1, dtype=torch.bool)
        self._seed = seed
        self._num_steps = 0

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """The next action, [11] float32 in [-1, 1]; slots that the skill lacks are 0.

        Args:
            observation: at least what the skill was trained with.
        """
        inputs = {
            name: torch.from_numpy(np.ascontiguousarray(observation[name]))[None]
            for name in self.observation
        }
        if self._samples:  # the same in an episode whatever else this process has run
            torch.manual_seed(self._seed * 100_003 + self._num_steps)
        with torch.inference_mode():
            step = self._policy.act(
                inputs, self._prev_action, self._is_first, self._state, not self._samples
            )
        self._prev_action, self._state = step.action, step.state
        self._is_first = torch.zeros(1, dtype=torch.bool)
        self._num_steps += 1
        action = np.zeros(ACTION_SIZE, np.float32)
        action[self._slots] = self._action.to_env(step.action[0].numpy())
        return action
