"""One episode as data: the initial state of the world, and the goal."""

from __future__ import annotations

from dataclasses import dataclass

from rearrange.sim.scene import Scene


@dataclass(frozen=True)
class Target:
    """An object to be moved, and where to."""

    object: int  # index into scene.objects
    name: str  # HAB's entity name, such as "any_targets|0"
    start: tuple[float, float, float]  # m, object centre at the start, world
    goal: tuple[float, float, float]  # m, object centre at the goal, world
    start_receptacle: str
    goal_receptacle: str
    start_container: str | None = None  # articulated joint that encloses the start, or None
    goal_container: str | None = None


@dataclass(frozen=True)
class EpisodeSpec:
    """episode = f(task, split, seed, index): depends on nothing else."""

    task: str
    split: str
    seed: int
    index: int
    scene: Scene
    targets: tuple[Target, ...]
    target_index: int = 0  # the target that a skill task is about
    marker: str | None = None  # the handle of an open or close task
    start_holding: bool = False  # target `target_index` starts in the gripper

    @property
    def handle(self) -> str:
        """`marker`, of an episode that has one."""
        assert self.marker is not None
        return self.marker
