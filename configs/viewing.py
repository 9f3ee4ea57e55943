"""The settings of the page to play, watch and replay episodes on."""

from dataclasses import dataclass, field
from typing import Any

from rearrange.configs.checks import check as _check
from rearrange.configs.checks import check_number
from rearrange.configs.schema import AgentSettings, TaskCfg


@dataclass(kw_only=True)
class ViewCfg(AgentSettings):
    task: TaskCfg = field(default_factory=TaskCfg)
    """A task's name, see `rearrange list`; another one can be chosen on the page."""
    given: Any = None
    """The command line (`rearrange.commands.overrides.ParsedOverrides`)."""
    run: str | None = None
    """Instead of a choice of episodes: the output_dir of an evaluation, to replay its episodes,
    failures first."""
    agent: str = "you"
    """`you`: keys and mouse; any other agent of `rearrange list` drives by itself. Agents can take
    over on the page, and hand back."""
    split: str = "val"
    """Which apartments: train, val or test."""
    index: int = 0
    """The first episode to be shown."""
    seed: int = 0
    """Seed of the episodes."""
    episodes: str | None = None
    """Take the episodes from this file, by their place there, instead of by split and seed."""
    time_limit: bool = False
    """Whether the task's time limit ends an episode. The clock starts with the first key."""
    format: str = "lerobot"  # noqa: A003
    """Format of kept demonstrations: lerobot, lerobot-v2.1, minari or hdf5, as in `collect`."""
    output: str | None = None
    """The data set for demonstrations; none:
    outputs/demonstrations/TASK-you-SPLIT-FORMAT-v0."""
    port: int = 8000
    """Port of the page on this machine (127.0.0.1); 0 takes a free one."""
    renderer: str = "auto"
    """Renderer: auto, plain, warp or egl; see `rearrange doctor`."""
    detail: float = 0.6
    """Render resolution, 0.2 to 1, as a share of the shown 960 x 540: less is faster."""

    def __post_init__(self) -> None:
        check_number("index", self.index)
        check_number("seed", self.seed)
        _check(0 <= self.port <= 65535, f"port must lie in [0, 65535], got {self.port}")
        known = ("lerobot", "lerobot-v2.1", "minari", "hdf5")
        _check(self.format in known, f"format must be one of {', '.join(known)}, got {self.format}")
        _check(0.2 <= self.detail <= 1.0, f"detail must lie in [0.2, 1], got {self.detail}")
