"""The settings of every verb of the `rearrange` command, as typed values.

Types, defaults and meanings are defined here; `rearrange VERB --help` prints them from this file.
`verbs.yaml` holds what differs per verb; `rearrange/commands/settings.py` builds the objects.
This module imports nothing heavy, so that help is quick; training verbs have their settings in
`training.py`, benchmarks in `benches.py`, `collect` in `collecting.py`, `view` in `viewing.py`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearrange.configs.backend import HabitatCfg, check_backend
from rearrange.configs.checks import LONGEST_S, MISSING, check_number
from rearrange.configs.checks import check as _check
from rearrange.configs.stages import PRESETS

MOST_EPISODES = 1_000_000  # of an evaluation; a slip of the finger would fill the memory
# Fields that the program fills in; not for the command line.
HIDDEN = ("given", "name", "forwarded")


@dataclass(kw_only=True)
class TaskCfg:
    name: str = MISSING
    """The task's name, as `rearrange list` prints it."""
    title: str = MISSING
    """The heading in reports."""
    stage_skills: list[list[str]] = field(default_factory=list[list[str]])
    """For each stage in order the skills it needs beyond the stage before; empty for one skill."""


@dataclass(kw_only=True)
class AgentSettings:
    """The agent: settings shared by evaluate, record and view."""

    agent: str = "oracle"
    """The agent, see `rearrange list`."""
    homes: str = "hab"
    """hab: HAB's apartments; procedural: 1,200 homes of 2 to 7 rooms, split by home; mixed: half
    the episodes in each; FILE.json: a home of your own, see `rearrange homes --help`."""
    checkpoint: str | None = None
    """agent=learned: the folder of a `train-skill` run (its newest checkpoint), one of its
    checkpoints, RUN/checkpoints/000000524288.json, or a skill file; none: the task's own skill from
    `skills`."""
    sample: bool = False
    """Trained skills sample their actions as in training instead of taking the most likely ones."""
    skills: str | None = None
    """Folder of trained skills, NAME.safetensors or run folders NAME; none: the package's."""
    oracle_skills: list[str] = field(default_factory=list[str])
    """agent=tp_srl...: skills that the oracle carries out instead, from the simulator's state."""
    looks: str = "auto"
    """Agents that plan: facts that are checked after each skill, to replan if needed. none: the
    first plan is carried out (Habitat's rule); own: from the robot's actions and sensors;
    privileged: from the simulator's state. auto: own for tp_srl..., privileged for the oracle."""
    max_failures: int | None = None
    """Agents that plan: failed skills after which an episode is given up; none: 1 with looks=none,
    as in Habitat, else 20."""
    limits: dict[str, int] = field(default_factory=dict[str, int])
    """agent=tp_srl...: time limit of a skill, control steps: limits.pick=300; none: default."""


@dataclass(kw_only=True)
class EvaluateCfg(AgentSettings):
    task: TaskCfg = field(default_factory=TaskCfg)
    """A task's name, see `rearrange list`."""
    run: str | None = None
    """Instead of a task and an agent: a trained policy in the environment of its training. A run's
    folder, one of its checkpoints, or a skill file."""
    env: str | None = None
    """run=...: the environment as package.module:Id, if a module of yours registers it."""
    split: str = "val"
    """Which apartments: train, val or test."""
    num_episodes: int = 100
    """How many episodes: those with the indices 0 to num_episodes - 1."""
    seed: int = 0
    """Seed of the episodes, and of the apartments drawn for intervals."""
    episodes: str | None = None
    """Take the episodes from this file, in its order, instead of by split and seed."""
    num_workers: int = 0
    """Worker processes; 0: one per core of this machine or of the cluster. The results do not
    depend on it."""
    scheme: str = "local"
    """Where the workers run: local, or ray, on a Ray cluster."""
    address: str | None = None
    """scheme=ray: HOST:PORT of a cluster; none: that of RAY_ADDRESS, or of `ray start` on this
    machine, or else one for this command alone, as local always is."""
    output_dir: str | None = None
    """Folder for summary.json, episodes.jsonl, report.html, stages.png and videos/; none:
    outputs/evaluate/TASK-AGENT-SPLIT. Results of the same settings in it are kept."""
    record: int = 0
    """Make videos of this many episodes, the first ones."""
    renderer: str = "auto"
    """Renderer of the videos: auto, plain, warp or egl; see `rearrange doctor`."""
    backend: str = "mujoco"
    """The simulator: mujoco, or habitat, where the agent acts in unmodified habitat-lab."""
    habitat: HabitatCfg = field(default_factory=HabitatCfg)
    """For backend=habitat."""
    episode_timeout_s: float = 900.0
    """A worker that neither steps nor ends its episode for this many seconds counts as dead. With
    scheme=ray: one that has not ended its episode after them."""
    max_restarts: int = 3
    """Dead workers that are replaced, their episodes repeated; one more ends the run. With
    scheme=ray, where machines come and go: per episode."""
    given: Any = None
    """The command line (`rearrange.commands.overrides.ParsedOverrides`)."""

    def __post_init__(self) -> None:
        _check_episodes(self.num_episodes)
        _check(self.num_workers >= 0, f"num_workers must not be negative, got {self.num_workers}")
        _check(self.scheme in ("local", "ray"), f"scheme must be local or ray, got {self.scheme}")
        is_there = self.address is None or self.scheme == "ray"
        _check(is_there, f"address={self.address} is for scheme=ray, got scheme={self.scheme}")
        _check(self.record >= 0, f"record must not be negative, got {self.record}")
        check_number("seed", self.seed)
        _check_backend(self)
        _check(
            self.max_restarts >= 0, f"max_restarts must not be negative, got {self.max_restarts}"
        )
        _check(
            0.0 < self.episode_timeout_s <= LONGEST_S,
            f"episode_timeout_s must lie in (0, {LONGEST_S:g}], got {self.episode_timeout_s}",
        )


@dataclass(kw_only=True)
class RecordCfg(AgentSettings):
    task: TaskCfg = field(default_factory=TaskCfg)
    """A task's name, see `rearrange list`."""
    run: str | None = None
    """Instead of a task and an agent: a trained policy in the environment of its training. A run's
    folder, one of its checkpoints, or a skill file."""
    env: str | None = None
    """run=...: the environment as package.module:Id, if a module of yours registers it."""
    split: str = "val"
    """Which apartments: train, val or test."""
    index: int = 0
    """Which episode."""
    seed: int = 0
    """Seed of the episodes."""
    episodes: str | None = None
    """Take the episode from this file, by its place there, instead of by split and seed."""
    output: str = "outputs/episode.mp4"
    """The video file, ending in .mp4; or .gif, for a page: smaller, and four times as fast."""
    renderer: str = "auto"
    """Renderer: auto, plain, warp or egl; see `rearrange doctor`."""
    backend: str = "mujoco"
    """The simulator: mujoco, or habitat, where the agent acts in unmodified habitat-lab."""
    habitat: HabitatCfg = field(default_factory=HabitatCfg)
    """For backend=habitat."""
    given: Any = None
    """The command's own overrides."""

    def __post_init__(self) -> None:
        check_number("index", self.index)
        check_number("seed", self.seed)
        _check_backend(self)
        is_right = Path(self.output).suffix in (".mp4", ".gif")  # `.mp4` alone has none
        _check(is_right, f"output must end in .mp4 or .gif, got {self.output}")


def _check_episodes(number: int) -> None:
    _check(number >= 1, f"num_episodes must be at least 1, got {number}")
    most = f"num_episodes must be at most {MOST_EPISODES:,}, got {number:,}"
    _check(number <= MOST_EPISODES, most)


def _check_backend(cfg: EvaluateCfg | RecordCfg) -> None:
    check_backend(cfg.backend, cfg.habitat)
    is_ours = cfg.backend == "mujoco" or (cfg.run is None and cfg.env is None)
    _check(is_ours, "backend=habitat takes task= and agent= instead of run= or env=")


@dataclass(kw_only=True)
class PlanCfg:
    task: TaskCfg = field(default_factory=TaskCfg)
    """Plan for an episode of this task."""
    split: str = "val"
    """Which apartments: train, val or test."""
    index: int = 0
    """Which episode."""
    seed: int = 0
    """Seed of the episodes."""
    domain: str | None = None
    """Instead of an episode: a PDDL domain file (STRIPS, typing, negative preconditions)."""
    problem: str | None = None
    """The PDDL problem file that goes with `domain`."""
    search: str = "auto"
    """For PDDL files: auto (shortest for small problems), fast (any plan), optimal (or none)."""
    max_nodes: int | None = None
    """For PDDL files: states to search before giving up; by default some 30 s of them."""
    timeout_s: float | None = None
    """For PDDL files: seconds of search before giving up; by default only max_nodes counts."""
    output: str | None = None
    """For an episode: also write its PDDL problem to this file."""

    def __post_init__(self) -> None:
        check_number("index", self.index)
        check_number("seed", self.seed)
        _check(
            (self.domain is None) == (self.problem is None),
            "domain and problem go together: give both PDDL files or neither",
        )
        known = ("auto", "fast", "optimal")
        _check(self.search in known, f"search must be one of {', '.join(known)}, got {self.search}")
        _check(
            self.max_nodes is None or self.max_nodes > 0,
            f"max_nodes must be above 0, got {self.max_nodes}",
        )
        _check(
            self.timeout_s is None or self.timeout_s > 0,
            f"timeout_s must be above 0, got {self.timeout_s}",
        )


@dataclass(kw_only=True)
class EpisodesCfg:
    what: str = MISSING
    """`generate` makes an episode file, `check` reads one and reports what is wrong with it."""
    task: TaskCfg = field(default_factory=TaskCfg)
    """generate: for this task; check: MODULE:NAME, if the file is of a task of your own."""
    split: str = "val"
    """generate: in these apartments: train, val or test."""
    homes: str = "hab"
    """generate: hab, procedural, mixed, or FILE.json, a home of your own."""
    num_episodes: int = 100
    """generate: number of episodes, from index 0."""
    seed: int = 0
    """generate: seed of the episodes."""
    output: str | None = None
    """generate: the file to write, ending in .json.gz."""
    file: str | None = None
    """check: the file to read."""

    def __post_init__(self) -> None:
        choices = "choose from generate, check"
        _check(self.what in ("generate", "check"), f"unknown '{self.what}': {choices}")
        _check_episodes(self.num_episodes)
        check_number("seed", self.seed)
        if self.what == "generate":
            _check(self.output is not None, "episodes generate needs output=FILE.json.gz")
        else:
            _check(self.file is not None, "episodes check needs file=FILE.json.gz")


@dataclass(kw_only=True)
class HomesCfg:
    what: str = MISSING
    """`check` reports mistakes in a home, `draw` draws floor plans, `generate` writes a procedural
    home as a file to edit, `measure` reports how a split's homes differ."""
    homes: str = "procedural"
    """check, draw: FILE.json, or procedural for those of a split; measure: hab too."""
    module: str | None = None
    """A module of your own that adds the kinds of furniture that FILE.json names."""
    split: str = "test"
    """Split of HAB's or of the procedural homes: train, val or test."""
    index: int = 0
    """procedural: the first home's number."""
    num_homes: int = 1
    """check, draw: number of procedural homes."""
    output: str | None = None
    """draw: the page to write, ending in .html; generate: the file, ending in .json."""

    def __post_init__(self) -> None:
        known = ("check", "draw", "generate", "measure")
        _check(self.what in known, f"unknown '{self.what}': choose from {', '.join(known)}")
        check_number("index", self.index)
        _check(self.num_homes >= 1, f"num_homes must be at least 1, got {self.num_homes}")
        what, ending = self.what, {"draw": ".html", "generate": ".json"}.get(self.what)
        if ending is None:
            _check(self.output is None, f"homes {what} writes no file: leave out output=")
        else:
            is_right = self.output is not None and self.output.endswith(ending)
            _check(is_right, f"homes {what} needs output=FILE{ending}")


@dataclass(kw_only=True)
class ExportSkillCfg:
    run: str = MISSING
    """The folder of a training run, of whichever environment; its newest whole checkpoint is taken.
    Or one of them, RUN/checkpoints/000000524288.json, or a skill file."""
    output: str = MISSING
    """The file, ending in .safetensors or .onnx; `skills=FOLDER` finds a skill of the home by its
    name, NAME.safetensors."""
    format: str = "safetensors"  # noqa: A003
    """safetensors, a skill file; or onnx, a deterministic model; memory is input and output."""
    env: str | None = None
    """The run's environment as package.module:Id, if a module of yours makes it known."""
    average: list[str] = field(default_factory=list[str])
    """Further runs or skill files of the same skill whose weights are averaged with the run's. One
    on cells alone leaves the picture network to the others; all else is of the first with one."""
    max_megabytes: float = 6.0
    """A larger file is refused: skills are shipped with the package."""

    def __post_init__(self) -> None:
        output, limit, known = self.output, self.max_megabytes, ("safetensors", "onnx")
        is_known = self.format in known
        _check(is_known, f"format must be one of {', '.join(known)}, got {self.format}")
        is_right = output.endswith(f".{self.format}")
        _check(is_right, f"with format={self.format} output must end in .{self.format}: {output}")
        _check(limit > 0.0, f"max_megabytes must be positive, got {limit}")


@dataclass(kw_only=True)
class ListCfg:
    what: str = "all"
    """What to list: all, tasks, agents, splits or renderers."""

    def __post_init__(self) -> None:
        known = ("all", "tasks", "agents", "splits", "renderers")
        _check(self.what in known, f"unknown '{self.what}': choose from {', '.join(known)}")


@dataclass(kw_only=True)
class PlotCfg:
    runs: list[str] = MISSING
    """Folders of training runs, without a key; runs that differ in their seed make one curve."""
    output: str = "outputs/curves.png"
    """The picture: .png, .svg or .pdf."""
    x: str = "step"
    """The x axis: step (of the environments) or time (s)."""
    metrics: list[str] = field(default_factory=lambda: ["episode/success", "episode/return"])
    """The y axes, a panel each: names from metrics.jsonl."""
    smooth: int = 1
    """Running mean over this many updates; 1: no smoothing."""

    def __post_init__(self) -> None:
        _check(bool(self.runs), "plot needs the folder of at least one run")
        _check(self.x in ("step", "time"), f"x must be step or time, got {self.x}")
        _check(bool(self.metrics), "metrics must name at least one")
        _check(self.smooth >= 1, f"smooth must be at least 1, got {self.smooth}")


@dataclass(kw_only=True)
class CompareCfg:
    runs: list[str] = MISSING
    """Folders of evaluations (output_dir), without a key: the first with each of the others."""
    output: str | None = None
    """Also write the findings to this JSON file."""

    def __post_init__(self) -> None:
        _check(len(self.runs) >= 2, f"compare needs at least two folders, got {len(self.runs)}")


@dataclass(kw_only=True)
class LaunchCfg:
    skills: list[str] = field(default_factory=list[str])
    """Train these skills of the home, with commas."""
    envs: list[str] = field(default_factory=list[str])
    """Train in these Gymnasium environments, with commas."""
    seeds: list[int] = field(default_factory=lambda: [0])
    """Train each of them with each of these seeds."""
    run_root: str = "runs"
    """Folder of the runs, visible to all machines; each is named by skill or env, mode and seed."""
    forwarded: list[str] = field(default_factory=list[str])
    """All other overrides: settings of each training."""

    def __post_init__(self) -> None:
        _check(bool(self.skills or self.envs), "launch needs skills=... or envs=...")
        _check(bool(self.seeds), "seeds must name at least one")
        _check(min(self.seeds, default=0) >= 0, f"seeds must not be negative, got {self.seeds}")
        for name in ("skills", "envs", "seeds"):
            values = getattr(self, name)
            _check(len({*values}) == len(values), f"{name} must not name anything twice")


@dataclass(kw_only=True)
class TrainSkillsCfg:
    skills: list[str] = field(default_factory=list[str])
    """Train these, with commas; none: all seven."""
    preset: str = "laptop"
    """Whose stages: laptop, for two cores, or paper, for a GPU."""
    seed: int = 0
    """Seed of every stage."""
    output: str | None = None
    """Folder of the skills and their runs; none: runs/skills-PRESET-SEED."""
    stop_after: str | None = None
    """Leave out the stages after this one."""
    jobs: int = 1
    """Stages at a time, of different skills; they share the cores."""
    max_hours: float = 0.0
    """Save and stop after this many hours, exit code 75; the same command continues. 0: never."""
    evaluate_episodes: int = 0
    """Validation episodes to evaluate each skill's file in. 0: none."""
    evaluate_stages: bool = False
    """Also evaluate the result of each stage in the same episodes."""
    forwarded: list[str] = field(default_factory=list[str])
    """All other overrides: settings of each stage's training."""

    def __post_init__(self) -> None:
        is_right = self.preset in PRESETS
        _check(is_right, f"preset must be one of {', '.join(PRESETS)}, got {self.preset}")
        _check(self.jobs >= 1, f"jobs must be at least 1, got {self.jobs}")
        is_right = len({*self.skills}) == len(self.skills)
        _check(is_right, "skills must not name anything twice")
        for name in ("seed", "max_hours", "evaluate_episodes"):
            value = getattr(self, name)
            _check(value >= 0, f"{name} must not be negative, got {value}")
        is_right = self.evaluate_episodes > 0 or not self.evaluate_stages
        _check(is_right, "evaluate_stages=true needs evaluate_episodes, such as 200")
