"""How to get an environment of a task: from Gymnasium by its id, or plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from rearrange.tasks.rules.names import TASKS

if TYPE_CHECKING:
    from rearrange.tasks.env import RearrangeEnv


def register_all() -> None:
    """Makes the ids known to Gymnasium. Harmless when called again."""
    for task, gym_id in TASKS.items():
        if gym_id not in gymnasium.registry:
            gymnasium.register(
                gym_id, entry_point="rearrange.tasks.env:RearrangeEnv", kwargs={"task": task}
            )


def make_env(task: str, split: str = "train", seed: int = 0, **options: Any) -> RearrangeEnv:
    """The environment itself, without Gymnasium's wrappers.

    `options` are those of `rearrange.tasks.env.RearrangeEnv`. Raises UserError for an unknown task,
    split or value.
    """
    from rearrange.tasks.env import RearrangeEnv

    return RearrangeEnv(task, split, seed, **options)
