"""What a control step was worth, term by term, and the forces, for the page's plots.

    reward = time - contact - broken hold - too much force + success + the task's own progress

The first five follow from the rules and the world (`tasks/rules/task.py`); progress is the rest.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from rearrange.tasks.rules.rewards import force_penalty

TERMS: tuple[str, ...] = ("time", "contact", "broken hold", "too much force", "success", "progress")
KEPT = 90  # control steps that a moment carries: a page that falls behind for 3 s misses none
DIGITS = 5


def reward_terms(reward: float, env: Any, info: dict[str, Any]) -> dict[str, float]:
    """The terms of the reward of the step just done; they add up to it.

    Args:
        env: RearrangeEnv.
    """
    rules, sim = env.task.rules, env.sim
    terms = dict.fromkeys(TERMS, 0.0)
    terms["time"] = rules.slack
    terms["contact"] = -force_penalty(sim.force_added, rules.force_coef, rules.force_cap)
    if sim.hold_violation:
        terms["broken hold"] = -rules.violation_penalty
    if info["failure"] == "force":
        terms["too much force"] = -rules.force_end_penalty
    if info["success"]:
        terms["success"] = rules.success_reward
    terms["progress"] = reward - sum(terms.values())
    return terms


class History:
    """The last steps."""

    def __init__(self) -> None:
        self._rows: deque[list[float]] = deque(maxlen=KEPT)

    def clear(self) -> None:
        """A new episode."""
        self._rows.clear()

    def add(self, step: int, force: float, terms: dict[str, float]) -> None:
        """A step by its number, with the largest contact force in it (N)."""
        values = [round(terms[name], DIGITS) for name in TERMS]
        self._rows.append([step, round(force, 2), *values])

    def rows(self) -> list[list[float]]:
        """Step, force, and each of `TERMS`; oldest first."""
        return list(self._rows)
