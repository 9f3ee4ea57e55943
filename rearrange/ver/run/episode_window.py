"""The window of finished episodes behind a training's metrics.

    environment 0   e e e e e [e e e]
    environment 1         e    [e e e]     the newest of each, equally many per environment
    environment 2              [  e  ]

    metric = mean over environments of (mean over the environment's newest episodes)

Every environment of every rank weighs the same: quick ones finish more episodes, and would
dominate otherwise. First episodes that `start_mode` cut short are counted and not averaged.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np


class EpisodeWindow:
    """The newest finished episodes of each environment, and their means.

    Args:
        size: episodes to average, `ceil(size / num_envs)` of each environment.
        num_envs: of all ranks together.
    """

    def __init__(self, size: int = 100, num_envs: int = 1) -> None:
        self._share = share = math.ceil(size / num_envs)
        self._episodes: list[deque[dict[str, float | None]]] = [
            deque(maxlen=share) for _ in range(num_envs)
        ]
        self.num_finished = 0
        """All episodes, including those that left the window or were cut short."""

    def __len__(self) -> int:
        return sum(map(len, self._episodes))

    @property
    def size(self) -> int:
        """The largest number of episodes that it holds."""
        return self._share * len(self._episodes)

    def add(
        self,
        episode_return: float,
        length: int,
        success: bool | None = None,
        info: Mapping[str, float] | None = None,
        *,
        env: int = 0,
        is_whole: bool = True,
    ) -> None:
        """Adds an episode; `success` is None if the environment does not report it."""
        self.num_finished += 1
        if not is_whole:
            return
        episode = {"return": episode_return, "length": length, "success": success}
        self._episodes[env].append(
            {name: finite_or_none(value) for name, value in (episode | dict(info or {})).items()}
        )

    def metrics(self) -> dict[str, float | None]:
        """Means as episode/return, episode/length, episode/success and others of `info`.

        None stands for what no episode in the window has; the first three are always there.
        """
        names = dict.fromkeys(["return", "length", "success"])
        for episode in (episode for episodes in self._episodes for episode in episodes):
            names.update(dict.fromkeys(episode))
        means = {f"episode/{name}": self.statistics(name) for name in names}
        return {name: None if known is None else known["mean"] for name, known in means.items()}

    def statistics(self, name: str) -> dict[str, float] | None:
        """{mean, std, episodes} over the window's episodes that have a value of that name.

        Each environment that has one weighs the same in mean and standard deviation.
        """
        of_envs = [
            [value for episode in episodes if (value := episode.get(name)) is not None]
            for episodes in self._episodes
        ]
        of_envs = [values for values in of_envs if values]
        if not of_envs:
            return None
        mean = float(np.mean([np.mean(values) for values in of_envs]))
        square = float(np.mean([np.mean(np.square(np.subtract(v, mean))) for v in of_envs]))
        return {"mean": mean, "std": math.sqrt(square), "episodes": sum(map(len, of_envs))}

    def score(self) -> tuple[str, float] | None:
        """Name and value of the metric that ranks policies: success if any episode reports it,
        else the return; None while few episodes have it.

        Where only some report success, as in imitation those that the policy acts alone in, the
        return of the others is a teacher's too.
        """
        for name in ("success", "return"):
            if (known := self.statistics(name)) is not None:
                is_enough = known["episodes"] >= 0.5 * self.size
                return (f"episode/{name}", known["mean"]) if is_enough else None
        return None

    def state(self) -> dict[str, Any]:
        """For a checkpoint's manifest."""
        return {"num_finished": self.num_finished, "of_envs": [list(e) for e in self._episodes]}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned, also after JSON.

        Episodes of environments that no longer exist are dropped: nothing would replace them.
        """
        self.num_finished = state["num_finished"]
        saved = state.get(
            "of_envs", []
        )  # absent in checkpoints from before environments had shares
        for env, episodes in enumerate(self._episodes):
            episodes.clear()
            episodes.extend(saved[env] if env < len(saved) else [])


def finite_or_none(value: Any) -> float | None:
    """A plain number, from a numpy or 0-d tensor one too; None for NaN and infinities."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None
