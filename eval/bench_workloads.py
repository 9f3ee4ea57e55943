"""The workloads of `rearrange bench trainers`, as environment factories that a worker can unpickle.

No torch here: environment workers import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rearrange.tasks.env import RearrangeEnv


@dataclass(frozen=True)
class HomeFactory:
    """Makes environment `index` of a task of the home; together they share one stream of episodes."""

    task: str
    camera_size: int
    num_envs: int
    seed: int = 0

    def __call__(self, index: int) -> RearrangeEnv:
        from rearrange.tasks.registry import make_env

        return make_env(
            self.task,
            "train",
            self.seed,
            camera_size=self.camera_size,
            index_offset=index,
            index_stride=self.num_envs,
        )
