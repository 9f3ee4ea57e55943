"""A vector environment of single ones, in which finished ones do not move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class FreezeAfterEnd(gymnasium.Wrapper):
    """After its episode's end a step repeats the last observation, with reward 0."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._first: Any = None
        self._last: tuple[Any, float, bool, bool, dict[str, Any]] | None = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._last = None
        self._first, info = self.env.reset(**kwargs)
        return self._first, info

    def freeze(self) -> None:
        """As if the episode had ended with the reset."""
        self._last = self._first, 0.0, False, False, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._last is not None:
            return self._last
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            self._last = observation, 0.0, bool(terminated), bool(truncated), {}
        return observation, reward, bool(terminated), bool(truncated), info


class SingleEnvs(SyncVectorEnv):
    """Gymnasium's SyncVectorEnv of `make_env(first)` and those that follow; autoreset is disabled.

    Observations are overwritten by the next step or reset.
    """

    def __init__(self, make_env: Callable[[int], gymnasium.Env], num_envs: int, first: int = 0):
        def make(index: int) -> gymnasium.Env:
            return FreezeAfterEnd(make_env(index))

        makers = [partial(make, first + i) for i in range(num_envs)]
        super().__init__(makers, copy=False, autoreset_mode=AutoresetMode.DISABLED)
        self._frozen = [env for env in self.envs if isinstance(env, FreezeAfterEnd)]
        self._inner = [env.env for env in self._frozen]

    def freeze(self, envs: np.ndarray) -> None:
        """Some, [N] bool, do not move until their next reset."""
        for e in np.flatnonzero(envs).tolist():
            self._frozen[e].freeze()

    @property
    def ages(self) -> np.ndarray:
        """Steps so far of each environment that counts them, [N]; else 0."""
        return np.array([getattr(env, "age", 0) for env in self._inner], np.int64)

    @ages.setter
    def ages(self, ages: np.ndarray) -> None:
        for env, age in zip(self._inner, ages.tolist(), strict=True):
            if hasattr(env, "age"):
                setattr(env, "age", age)  # noqa: B010 - of our environments alone

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._autoreset_envs[:] = False  # Gymnasium refuses a step of those that have ended
        return super().step(actions)
