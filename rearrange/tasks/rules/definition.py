"""TaskDefinition: all parts of a task in one object, and the registry of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

from rearrange.system.registry import Registry, resolved

if TYPE_CHECKING:
    from rearrange.tasks.rules.task import Task

OWN_STREAMS = 1 << 20  # numbers of streams from here on are those of names


@dataclass(frozen=True, kw_only=True)
class TaskDefinition:
    """A task. Where a function or object is asked for, "module:Name" of it does as well."""

    name: str
    env_id: str
    """Of its Gymnasium environment."""
    title: str
    """The heading in reports."""
    rules: Callable[[str], Task] | str
    """Called with the name: a new `Task`, which judges."""
    episodes: Any
    """Where it happens: an `Episodes` of `rearrange.tasks.episodes.generate`, own or another's."""
    stream: int | None = None
    """Number of its episodes' stream of random numbers; None: one that follows from the name."""
    action_slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Action space -> the slots that it has in this task, where these are not all."""
    domain: str | None = None
    """Of `registries.DOMAINS`: the planner's, for what takes several skills; None: it is one."""
    goals: tuple[tuple[str, ...], ...] = ()
    """What its plans bring about, predicate and entities each, beside objects at their goals."""
    skills: tuple[str, ...] = ()
    """Skills that its plans always have."""
    more_skills: tuple[str, ...] = ()
    """Skills that its plans may have: doors get pushed shut."""
    stage_skills: tuple[tuple[str, ...], ...] = ()
    """For each stage in order the skills it needs beyond the stage before."""

    @property
    def is_planned(self) -> bool:
        """Whether it takes a plan of several skills."""
        return self.domain is not None

    @property
    def stream_number(self) -> int:
        """Number of its episodes' stream of random numbers."""
        if self.stream is not None:
            return self.stream
        return OWN_STREAMS + crc32(self.name.encode())

    def make_rules(self) -> Task:
        """Its rules, for one environment."""
        return resolved(self.rules)(self.name)


TASKS: Registry[TaskDefinition] = Registry("task", lambda thing: isinstance(thing, TaskDefinition))
"""What is asked of the robot: rules, episodes, Gymnasium id."""
