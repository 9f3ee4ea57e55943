"""The agent interface: it turns observations into actions over a whole episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

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


AGENTS: Registry[Callable[..., Agent]] = Registry("agent")
"""Agents: called with the environment, see `planner.agents.registry.make_agent`."""
