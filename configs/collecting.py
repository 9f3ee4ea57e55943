"""Settings of `rearrange collect` and `rearrange collect verify`."""

from dataclasses import dataclass, field
from typing import Any

from rearrange.configs.checks import LONGEST_S, MISSING, check_number
from rearrange.configs.checks import check as _check
from rearrange.configs.schema import AgentSettings, TaskCfg


@dataclass(kw_only=True)
class CollectCfg(AgentSettings):
    task: TaskCfg = field(default_factory=TaskCfg)
    """A task's name, see `rearrange list`."""
    format: str = "lerobot"  # noqa: A003
    """lerobot: LeRobot's data sets, v3.0; lerobot-v2.1: as its releases up to 0.3.3 read them;
    minari: Farama's; hdf5: one plain file."""
    split: str = "train"
    """Which apartments: train, val or test."""
    num_episodes: int = 100
    """How many episodes: those with the indices 0 to num_episodes - 1."""
    seed: int = 0
    """Seed of the episodes."""
    output: str | None = None
    """The data set's folder; none: outputs/demonstrations/TASK-AGENT-SPLIT-FORMAT-v0. A finished
    one is never changed."""
    num_workers: int = 0
    """Worker processes; 0 takes one for each core. The data do not depend on it."""
    episode_timeout_s: float = 900.0
    """A worker that neither steps nor ends its episode for this many seconds counts as dead."""
    max_restarts: int = 3
    """Dead workers that are replaced, their episodes repeated; one more ends the run."""
    given: Any = None
    """The command line (`rearrange.commands.overrides.ParsedOverrides`)."""

    def __post_init__(self) -> None:
        check_number("seed", self.seed)
        known = ("lerobot", "lerobot-v2.1", "minari", "hdf5")
        _check(self.format in known, f"format must be one of {', '.join(known)}, got {self.format}")
        for name, low in (
            ("num_episodes", 1),
            ("num_workers", 0),
            ("max_restarts", 0),
        ):
            value = getattr(self, name)
            _check(value >= low, f"{name} must be at least {low}, got {value}")
        _check(
            0.0 < self.episode_timeout_s <= LONGEST_S,
            f"episode_timeout_s must lie in (0, {LONGEST_S:g}], got {self.episode_timeout_s}",
        )


@dataclass(kw_only=True)
class VerifyCfg:
    folder: str = MISSING
    """A data set that `rearrange collect` has made."""
    task: str | None = None
    """Of a data set of a task of your own: MODULE:NAME. Files themselves import nothing."""
