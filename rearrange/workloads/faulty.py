"""An environment that fails on demand, to test the trainer's reaction.

    rearrange train env=rearrange.workloads.faulty:Faulty-v0 env_kwargs.fault=hang

Otherwise the task is trivial: the action should be the sign of the observation. Episodes have 20
steps. No torch here: workers import this module.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

FAULTS = (
    "none",
    "nan_observation",
    "nan_reward",
    "nan_reset",  # in the first observation of an episode
    "huge_reward",  # a finite number whose square is not: the loss becomes infinite
    "raise",
    "exit",  # ends the process without a message
    "hang",
    "mistake",  # a UserError, as an environment raises for wrong settings
    "value_error",  # an exception that is no mistake of the caller
    "sys_exit",  # as a script ends, with code 0
    "bad_seed",  # the process ends in every reset whose seed is a multiple of `at_step`
)
EPISODE_STEPS = 20


class FaultyEnv(gymnasium.Env):
    """Breaks once in a process at one step, or once in all when a file appears.

    Args:
        index: of this environment among all of the training.
        fault: one of `FAULTS`.
        broken_index: the environment that breaks; the others never do. -1: all.
        at_step: the process's step, counted over its episodes, at which it breaks.
        step_s: how long each step takes (s).
        trigger: a path. It breaks, instead of at `at_step`, in the first step that finds a file
            there, and removes the file, so that its successor does not break.
    """

    observation_space = Box(-2.0, 2.0, (4,), np.float32)
    action_space = Discrete(2)

    def __init__(
        self,
        index: int = 0,
        fault: str = "none",
        broken_index: int = 1,
        at_step: int = 100,
        step_s: float = 0.0,
        trigger: str = "",
    ) -> None:
        if fault not in FAULTS:
            raise ValueError(f"fault must be one of {', '.join(FAULTS)}; got '{fault}'")
        is_broken = broken_index in (-1, index)
        self._fault, self._at_step, self._step_s = fault if is_broken else "none", at_step, step_s
        self._trigger = Path(trigger) if trigger else None
        self._num_steps = self._length = 0
        self._observation = np.zeros(4, np.float32)
        self._is_over = False  # it has broken

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._length = 0
        if self._fault == "bad_seed" and seed is not None and seed % self._at_step == 0:
            os._exit(7)
        self._observation = self._draw()
        if self._fault == "nan_reset" and self._num_steps >= self._at_step and not self._is_over:
            self._is_over = True
            self._observation[2] = np.nan
        return self._observation, {}

    def step(self, action: Any):
        if self._step_s:
            time.sleep(self._step_s)
        reward = float((self._observation[0] > 0.0) == bool(action))
        self._observation = self._draw()
        self._num_steps += 1
        self._length += 1
        if self._is_time():
            reward = self._break(reward)
        return self._observation, reward, False, self._length == EPISODE_STEPS, {}

    def _is_time(self) -> bool:
        if self._trigger is None:
            return self._num_steps == self._at_step
        if self._fault == "none":
            return False
        try:
            self._trigger.unlink()
        except FileNotFoundError:  # not yet, or another process was faster
            return False
        return True

    def _draw(self) -> np.ndarray:
        return self.np_random.uniform(-2.0, 2.0, 4).astype(np.float32)

    def _break(self, reward: float) -> float:
        """Causes the fault in this step; returns the reward."""
        match self._fault:
            case "nan_observation":
                self._observation[1] = np.nan
            case "nan_reward":
                return float("nan")
            case "huge_reward":
                return 1e30
            case "raise":
                raise ArithmeticError("this environment is broken on purpose")
            case "value_error":
                raise ValueError("an array of this environment has the wrong shape")
            case "sys_exit":
                sys.exit(0)
            case "exit":
                os._exit(7)
            case "hang":
                time.sleep(1e6)
            case "mistake":
                from rearrange.errors import UserError

                raise UserError("this environment does not like its settings")
        return reward


gymnasium.register(
    "Faulty-v0", entry_point="rearrange.workloads.faulty:FaultyEnv", kwargs={"index": 0}
)
