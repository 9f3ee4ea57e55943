"""The agent interface: it turns observations into actions over a whole episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rearrange.errors import UserError
from rearrange.system.registry import Registry


class Agent(Protocol):
    """An agent, as made by `rearrange.planner.agents.registry.make_agent`."""

    @property
    def attempts(self) -> list[tuple[str, bool]]: ...  # skills tried, and whether each succeeded
    @property
    def status(self) -> str: ...  # the running step of the plan
    @property
    def plan_lines(self) -> list[str]: ...  # done with +, running with >, pending with a blank
    @property
    def failure(self) -> str | None: ...  # what went wrong, if the episode failed

    def reset(self, observation: Any, info: dict[str, Any]) -> None: ...
    def act(self, observation: Any, info: dict[str, Any]) -> Any: ...


_METHODS, _REPORT = ("reset", "act"), ("attempts", "status", "plan_lines", "failure")


def begin_episode(agent: Any, observation: Any, info: dict[str, Any]) -> None:
    """Calls an agent's `reset`. Raises UserError for one that lacks a part of an agent."""
    _check(agent, [name for name in _METHODS if not callable(getattr(agent, name, None))])
    agent.reset(observation, info)
    _check(agent, [name for name in _REPORT if not hasattr(agent, name)])


def _check(agent: Any, missing: list[str]) -> None:
    if missing:
        raise UserError(
            f"an agent must have {', '.join((*_METHODS, *_REPORT))} "
            f"(rearrange/planner/agents/agent.py), {type(agent).__name__} lacks "
            f"{', '.join(missing)}"
        )


AGENTS: Registry[Callable[..., Agent]] = Registry("agent")
"""Agents: called with the environment, see `planner.agents.registry.make_agent`."""
