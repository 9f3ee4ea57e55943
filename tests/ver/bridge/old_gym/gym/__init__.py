"""A stand-in for an old gym, with what environments of that time relied on.

`step` gives four things, seeds are told by `seed`, and an action is refused unless the space
contains it.
"""

import os
import subprocess
import sys
import time

import numpy as np

from gym import spaces

__version__ = "0.21.0"


class Spec:
    def __init__(self, env_id, make, **kwargs):
        self.id, self.make, self._kwargs = env_id, make, kwargs


class Counting:
    """Ends after 5 steps; each third episode by a time limit.

    Args:
        fault: "hang", "exit", "helper" (starts a process that outlives it) or none, in step 3.
    """

    observation_space = spaces.Dict(
        {"where": spaces.Box(-1e9, 1e9, (2,), np.float64), "phase": spaces.Discrete(5)}
    )
    action_space = spaces.Dict(
        {
            "arm": spaces.Box(-2.0, 2.0, (2,), np.float32),
            "base": spaces.Dict({"grip": spaces.Discrete(3)}),
        }
    )

    def __init__(self, index=0, fault=""):
        self.index, self.fault, self.episodes, self._seed = index, fault, 0, None

    @property
    def unwrapped(self):
        return self

    def seed(self, seed=None):
        self._seed = seed

    def reset(self):
        self.count = 0
        self.episodes += 1
        return self._observation()

    def step(self, action):
        assert self.action_space.contains(action), action
        self.count += 1
        if self.count == 3:
            self._break()
        is_over = self.count == 5
        info = {"success": float(is_over), "deep": {"index": self.index}}
        if is_over and self.episodes % 3 == 0:
            info["TimeLimit.truncated"] = True
        reward = float(action["arm"].sum()) + 10 * action["base"]["grip"]
        return self._observation(), reward, is_over, info

    def close(self):
        pass

    def _observation(self):
        return {"where": np.array([self._seed, self.count], float), "phase": self.count % 5}

    def _break(self):
        if self.fault == "hang":
            time.sleep(1000.0)
        elif self.fault == "exit":
            os._exit(7)
        elif self.fault == "helper":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])


class Broken(Counting):
    def reset(self):
        raise ArithmeticError("no world to start in")


def _unmade():
    raise ConnectionError("the display is not there")


class Strange(Counting):
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Dict({"say": spaces.Text()})


SPECS = {
    spec.id: spec
    for spec in (
        Spec("Counting-v0", Counting, index=0), Spec("Broken-v0", Broken),
        Spec("Unmade-v0", _unmade), Spec("Strange-v0", Strange),
    )
}  # fmt: skip


def spec(env_id):
    return SPECS[env_id]


def make(env_id, **kwargs):
    return SPECS[env_id].make(**kwargs)
