"""Initial action means and deviations of a fresh policy, for any network.

With means around 0, tasks that end by `stop` would end every episode at once.
"""

from __future__ import annotations

from typing import Any

from rearrange.tasks.actions import STOP, action_slots
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.tasks.rules.rulebook import make_task

STOP_MEAN = -0.9  # of a fresh policy's stop, which is called above 0
STOP_LOG_STD = -1.0  # of its actions with a stop: called once in 140 steps


def first_actions(env_id: str, action_space: str) -> dict[str, Any]:
    """Settings of the policy; empty if all means may be 0.

    Not for imitation, where the teacher acts first.
    """
    task = TASK_OF_ID.get(env_id)
    means = first_means(task, action_space) if task is not None else []
    return {"initial_log_std": STOP_LOG_STD, "initial_means": means} if means else {}


def first_means(task: str, action_space: str) -> list[float]:
    """Mean actions of a fresh policy; empty if all may be 0."""
    if not make_task(task).rules.is_stop_used:
        return []
    return [STOP_MEAN if slot == STOP else 0.0 for slot in action_slots(task, action_space)]
