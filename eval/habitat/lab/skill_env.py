"""One of our skills' tasks in habitat-lab as an environment of gym, to train in.

    env = SkillEnv(folder=..., task="pick", sensors={"joint": [7], ...}, slots=[0, ..., 10], ...)
    observation = env.reset(seed=7)               an exported episode, drawn by the seed
    observation, reward, done, info = env.step(action)

Observations are those that our own environment of the task gives, actions those of its action
space; reward, success and end are Habitat's.

Runs in Habitat's Python: numpy, gym and habitat alone, Python 3.9.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from rearrange.eval.habitat.lab.conversion import ACTION_SIZE, GRIP
from rearrange.eval.habitat.lab.stock_env import StockCfg, StockEnv

ENV_ID = "HabitatSkill-v0"


class SkillEnv:
    """See the module.

    Args:
        folder: of an export with episodes of the task.
        sensors: name -> shape, what observations have; images have three axes.
        slots: of the full action vector, that an action here has, in order.
        delay: control steps by which observations are late, 0 or 1.
        others: fields of `StockCfg`.
    """

    metadata: dict[str, Any] = {}
    spec: Any = None
    reward_range = (-np.inf, np.inf)

    def __init__(
        self, *, folder: str, sensors: dict[str, list[int]], slots: list[int], delay: int = 1,
        **others: Any,
    ) -> None:  # fmt: skip
        spaces = import_module("gym").spaces
        os.chdir(folder)
        self._sensors, self._slots, self._delay = sensors, list(slots), delay
        self._stock = StockEnv(StockCfg(**others))
        self._current: dict[str, np.ndarray] = {}
        # A grip that the task lacks stays as it is: nothing is let go that an episode begins with.
        self._idle = np.zeros(ACTION_SIZE)
        if GRIP not in self._slots:
            self._idle[GRIP] = 1.0
        self.observation_space = spaces.Dict(
            {
                name: spaces.Box(-np.inf, np.inf, tuple(shape), np.float32)
                for name, shape in sensors.items()
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (len(self._slots),), np.float32)

    @property
    def unwrapped(self) -> SkillEnv:
        return self

    def reset(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Starts the episode that the seed draws among those of the export."""
        index = int(np.random.default_rng(seed).integers(self._stock.num_episodes))
        sensors, _ = self._stock.reset(index)
        self._current = self._chosen(sensors)
        return self._current

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, dict[str, Any]]:
        """One control step; the info has `success` and `failure`."""
        full = self._idle.copy()
        full[self._slots] = action
        before = self._current
        sensors, facts = self._stock.step(full)
        self._current = self._chosen(sensors)
        info = {"success": facts["success"], "failure": facts["failure"] or ""}
        info["TimeLimit.truncated"] = facts["failure"] == "time_limit"
        seen = before if self._delay else self._current
        return seen, float(facts["reward"]), bool(facts["is_over"]), info

    def close(self) -> None:
        self._stock.close()

    def _chosen(self, sensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: sensors[name].reshape(shape) for name, shape in self._sensors.items()}


with suppress(ImportError):  # there is none where it is only read
    import_module("gym").register(ENV_ID, entry_point=f"{__name__}:SkillEnv")
