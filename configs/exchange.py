"""Settings of the verbs that trade homes and episodes with other simulators."""

from dataclasses import dataclass, field

from rearrange.configs.backend import HabitatCfg
from rearrange.configs.checks import MISSING, check_number
from rearrange.configs.checks import check as _check

_SKILLS = (
    "pick", "place", "navigate", "open_drawer", "open_fridge", "close_drawer", "close_fridge",
)  # fmt: skip
_FORMATS = ("habitat",)
_HAB_TASKS = ("tidy_house", "prepare_groceries", "set_table")
_TASKS = ("rearrange_easy", *_HAB_TASKS, "open_drawer", "open_fridge")


@dataclass(kw_only=True)
class ExportHomesCfg:
    output: str = MISSING
    """The folder: new, empty, or of an earlier export, to which this is added."""
    format: str = "habitat"  # noqa: A003
    """habitat: a data set that unmodified habitat-lab loads when it is started in the folder."""
    homes: str = "hab"
    """HAB's apartments; other homes cannot be exported yet."""
    split: str = "val"
    """Which apartments of HAB: train, val or test; all of a split are written."""
    tasks: list[str] = field(default_factory=lambda: list(_TASKS))
    """Tasks of the episodes, with commas; by default those of habitat-lab's skills and HAB."""
    num_episodes: int = 100
    """Episodes of each task."""
    seed: int = 0
    """Seed of the episodes."""

    def __post_init__(self) -> None:
        is_known = self.format in _FORMATS
        _check(is_known, f"format must be one of {', '.join(_FORMATS)}, got {self.format}")
        _check(self.homes == "hab", f"export-homes takes homes=hab alone, got {self.homes}")
        _check(bool(self.tasks), "tasks must name at least one")
        _check(len({*self.tasks}) == len(self.tasks), "tasks must not name anything twice")
        _check(self.num_episodes >= 1, f"num_episodes must be at least 1, got {self.num_episodes}")
        check_number("seed", self.seed)


@dataclass(kw_only=True)
class ImportEpisodesCfg:
    file: str = MISSING
    """Habitat's: RearrangeDataset-v0, ending in .json.gz."""
    output: str | None = None
    """Our episode file to write, ending in .json.gz; none: only report what has a counterpart."""

    def __post_init__(self) -> None:
        for name in ("file", "output"):
            value = getattr(self, name)
            is_right = value is None or value.endswith(".json.gz")
            _check(is_right, f"{name} must end in .json.gz, got {value}")


@dataclass(kw_only=True)
class PassportCfg:
    skills: list[str] = field(default_factory=lambda: list(_SKILLS))
    """The skills, with commas; those that come with the package act."""
    tasks: list[str] = field(default_factory=lambda: list(_HAB_TASKS))
    """HAB's tasks, which chains of these skills carry out by Habitat's rule (looks=none); none of
    them: tasks=[]."""
    num_episodes: int = 100
    """Episodes of each skill, the first ones."""
    num_task_episodes: int = 25
    """Episodes of each of HAB's tasks."""
    split: str = "val"
    """Which apartments of HAB: train, val or test."""
    seed: int = 0
    """Seed of the episodes."""
    habitat: HabitatCfg = field(default_factory=HabitatCfg)
    """Habitat's Python; without `habitat.data` the episodes are exported into `output`."""
    num_resets: int = 10
    """Episodes of each whose starts are compared in both simulators."""
    record: int = 1
    """Films of so many episodes of each, in both."""
    num_workers: int = 0
    """Worker processes; 0: one per core."""
    output: str = "outputs/passport"
    """Folder for passport.html, passport.json and the evaluations; what is in it is kept."""

    def __post_init__(self) -> None:
        names = [*self.skills, *self.tasks]
        _check(bool(names), "skills or tasks must name at least one")
        _check(len({*names}) == len(names), "skills and tasks must not name anything twice")
        check_number("seed", self.seed)
        lows = {
            "num_episodes": 1,
            "num_task_episodes": 1,
            "num_resets": 0,
            "record": 0,
            "num_workers": 0,
        }
        for name, low in lows.items():
            value = getattr(self, name)
            _check(value >= low, f"{name} must be at least {low}, got {value}")
