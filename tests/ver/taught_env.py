"""An environment that says what it would have done. No torch here: workers import it."""

import gymnasium
import numpy as np
from gymnasium import spaces

A = 3
TEACHER = np.array([[0.4, -0.3], [0.2, 0.5], [-0.5, 0.1]])  # label = TEACHER place


class Taught(gymnasium.Env):
    """Places to go to; the older the environment, the more of its labels count, and the shorter
    are its episodes."""

    observation_space = spaces.Dict(
        {
            "place": spaces.Box(-1.0, 1.0, (2,), np.float32),
            "oracle_action": spaces.Box(-1.0, 1.0, (A,), np.float32),
            "oracle_weight": spaces.Box(0.0, 9.0, (A,), np.float32),
        }
    )
    action_space = spaces.Box(-1.0, 1.0, (A,), np.float32)

    def __init__(self, index):
        self.age = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = int(self.np_random.integers(3, 40 if self.age < 12 else 20))
        return self.look(), {}

    def step(self, action):
        self.age += 1
        self.length -= 1
        return self.look(), float(action[0]), self.length == 0, False, {}

    def look(self):
        place = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        weight = np.array([1.0, 2.0, self.age > 60], np.float32)
        label = (TEACHER @ place).astype(np.float32)
        return {"place": place, "oracle_action": label, "oracle_weight": weight}
