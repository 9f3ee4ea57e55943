"""TaskDefinition: all parts of a task in one object, and the registry of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

from rearrange.system.registry import Registry, resolved

if TYPE_CHECKING:
    from rearrange.tasks.rules.task import Task

OWN_STREAMS = 1 << 20  # stream numbers from here on are derived from names


@dataclass(frozen=True, kw_only=True)
class TaskDefinition:
    """A task. Functions and objects may be given as "module:Name"."""

    name: str
    env_id: str
    """Id of its Gymnasium environment."""
    title: str
    """The heading in reports."""
    rules: Callable[[str], Task] | str
    """Name -> a new `Task` with its rules."""
    episodes: Any
    """Its episodes: an `Episodes` of `rearrange.tasks.episodes.generate`, its own or a shared
    one."""
    stream: int | None = None
    """Number of its episodes' random stream; None: derived from the name."""
    action_slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Action space -> the action slots in this task, if not all."""
    domain: str | None = None
    """Planning domain of a task of several skills, from `registries.DOMAINS`; None: one skill."""
    goals: tuple[tuple[str, ...], ...] = ()
    """Goals of its plans besides objects at their goals: predicate and entities each."""
    skills: tuple[str, ...] = ()
    """Skills that occur in all of its plans."""
    more_skills: tuple[str, ...] = ()
    """Skills that may occur in its plans: doors get pushed shut."""
    stage_skills: tuple[tuple[str, ...], ...] = ()
    """For each stage in order the skills it needs beyond the stage before."""

    @property
    def is_planned(self) -> bool:
        """Whether it needs a plan of several skills."""
        return self.domain is not None

    @property
    def stream_number(self) -> int:
        """Number of its episodes' random stream."""
        if self.stream is not None:
            return self.stream
        return OWN_STREAMS + crc32(self.name.encode())

    def make_rules(self) -> Task:
        """Its rules, for one environment."""
        return resolved(self.rules)(self.name)


TASKS: Registry[TaskDefinition] = Registry("task", lambda thing: isinstance(thing, TaskDefinition))
"""The tasks: rules, episodes, Gymnasium id."""
