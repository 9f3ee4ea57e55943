"""Makes a task's environment: through Gymnasium by its id, or directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from rearrange.tasks.rules.definition import TASKS

if TYPE_CHECKING:
    from rearrange.tasks.env import RearrangeEnv
    from rearrange.tasks.rules.definition import TaskDefinition


def register_all() -> None:
    """Registers the ids of all tasks with Gymnasium, also of tasks added later.

    May be called again.
    """
    for name, task in TASKS.items():
        _register(name, task)
    if _register not in TASKS.listeners:
        TASKS.listeners.append(_register)


def _register(name: str, task: TaskDefinition | str) -> None:
    assert not isinstance(task, str), "a task is added itself: its id is registered at once"
    if task.env_id not in gymnasium.registry:
        gymnasium.register(
            task.env_id, "rearrange.tasks.env:RearrangeEnv", kwargs={"task": name},
            vector_entry_point="rearrange.tasks.vector.home_vector_env:HomeVectorEnv",
        )  # fmt: skip


def make_env(task: str, split: str = "train", seed: int = 0, **options: Any) -> RearrangeEnv:
    """The environment itself, without Gymnasium's wrappers.

    Args:
        task: its name, or `package.module:Name`, which imports the module.
        options: those of `rearrange.tasks.env.RearrangeEnv`.

    Raises UserError for an unknown task, split or value.
    """
    from rearrange.tasks.env import RearrangeEnv

    return RearrangeEnv(task, split, seed, **options)
