"""Classic control with hidden velocities, which a policy without memory cannot solve.

    rearrange/MaskedCartPole-v1    CartPole-v1, [position, angle]
    rearrange/MaskedPendulum-v1    Pendulum-v1, [cos(angle), sin(angle)]

The usual first test of recurrent policies (Ni et al. 2022, "Recurrent Model-Free RL Can Be a Strong
Baseline for Many POMDPs", section 5). Physics, rewards and time limits are Gymnasium's.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

KEPT: dict[str, tuple[str, tuple[int, ...]]] = {
    "rearrange/MaskedCartPole-v1": ("CartPole-v1", (0, 2)),
    "rearrange/MaskedPendulum-v1": ("Pendulum-v1", (0, 1)),
}
"""Id -> Gymnasium's environment, and the indices of the visible observations."""


class HideNumbers(gymnasium.ObservationWrapper):
    """Keeps only some entries of a vector observation."""

    def __init__(self, env: gymnasium.Env, kept: tuple[int, ...]) -> None:
        super().__init__(env)
        self._kept = np.array(kept)
        space = env.observation_space
        assert isinstance(space, Box)
        self.observation_space = Box(
            space.low[self._kept], space.high[self._kept], dtype=np.float32
        )

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """The visible entries, [len(kept)] float32."""
        return observation[self._kept]


def make_masked(masked_id: str, **options: Any) -> gymnasium.Env:
    """The environment of an id in `KEPT`; Gymnasium adds the time limit of the registration."""
    plain_id, kept = KEPT[masked_id]
    # unwrapped: the time limit must stand outside, where `gymnasium.make` puts it
    return HideNumbers(gymnasium.make(plain_id, **options).unwrapped, kept)


def register_all() -> None:
    """Registers the ids with Gymnasium; may be called again."""
    for masked_id, (plain_id, _) in KEPT.items():
        if masked_id not in gymnasium.registry:
            plain = gymnasium.spec(plain_id)
            gymnasium.register(
                masked_id,
                entry_point="rearrange.workloads.classic:make_masked",
                kwargs={"masked_id": masked_id},
                max_episode_steps=plain.max_episode_steps,
                reward_threshold=plain.reward_threshold,
            )
