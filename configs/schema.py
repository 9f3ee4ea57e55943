"""The settings of every verb of the `rearrange` command, as typed values.

A field's type, default and meaning stand here; `rearrange VERB --help` prints them from this file.
`configs/<verb>.yaml` joins the class of a verb with the groups;
`rearrange/commands/settings.py` makes an object of it. This module imports nothing, so that asking
for help is quick; the verbs that train have their settings in `training.py`.
"""

from dataclasses import dataclass, field

MISSING = "???"  # OmegaConf's word for a value that has to be given
HIDDEN = (
    "given",
    "name",
    "passed_on",
)  # fields that the program fills in; not for the command line
LONGEST_S = 1e6  # that is waited for anything; the system's clocks count no further than 2e6 s
_BENCHES = "choose from sim, trainers, scaling"


def _check(is_right: bool, message: str) -> None:
    if not is_right:
        raise ValueError(message)


@dataclass(kw_only=True)
class TaskCfg:
    name: str = MISSING
    """The task's name, as `rearrange list` prints it."""
    title: str = MISSING
    """The heading in reports."""
    stage_skills: list[list[str]] = field(default_factory=list)
    """For each stage in order the skills it needs beyond the stage before; empty for one skill."""


@dataclass(kw_only=True)
class AgentSettings:
    """Who acts: settings that evaluate, record and view share."""

    agent: str = "oracle"
    """Who acts, see `rearrange list`."""
    homes: str = "hab"
    """hab: HAB's apartments; procedural: 1,200 homes of 2 to 7 rooms, split by home."""
    checkpoint: str | None = None
    """agent=learned: the folder of a `train-skill` run (its newest checkpoint), one of its
    checkpoints, RUN/checkpoints/000000524288.json, or a skill file; none: the task's own skill from
    `skills`."""
    sample: bool = False
    """Trained skills draw their actions as in training instead of taking the most likely ones."""
    skills: str | None = None
    """Folder of trained skills, NAME.safetensors or a run's folder NAME each; none: those that come
    with the package."""
    oracle_skills: list[str] = field(default_factory=list)
    """agent=tp_srl...: the oracle, which reads the simulator's state, does these skills instead."""
    looks: str = "auto"
    """Agents that plan: what they know after each skill, to plan again if need be. none: nothing,
    the first plan is carried out (Habitat's rule); own: what the robot did and felt; privileged:
    the simulator's state. auto: own for tp_srl..., privileged for the oracle."""
    max_failures: int | None = None
    """Agents that plan: with so many failed skills an episode is given up; none: 1 with looks=none,
    as in Habitat, else 20."""
    limits: dict[str, int] = field(default_factory=dict)
    """agent=tp_srl...: control steps of a skill, limits.pick=300; none: the usual ones."""


@dataclass(kw_only=True)
class EvaluateCfg(AgentSettings):
    task: TaskCfg = field(default_factory=TaskCfg)
    """A task's name, see `rearrange list`."""
    split: str = "val"
    """Which apartments: train, val or test."""
    num_episodes: int = 100
    """How many episodes: those with the indices 0 to num_episodes - 1."""
    seed: int = 0
    """Seed of the episodes, and of the apartments drawn for intervals."""
    episodes: str | None = None
    """Take the episodes from this file, in its order, instead of by split and seed."""
    num_workers: int = 0
    """Worker processes; 0 takes one for each core, of this machine or of the cluster. The results
    do not depend on it."""
    scheme: str = "local"
    """Where the workers are: local, or ray, all over a Ray cluster."""
    address: str | None = None
    """scheme=ray: HOST:PORT of a cluster; none: that of RAY_ADDRESS, or of `ray start` on this
    machine, or else one for this command alone, as local always is."""
    output_dir: str | None = None
    """Folder for summary.json, episodes.jsonl, report.html, stages.png and videos/; none:
    outputs/evaluate/TASK-AGENT-SPLIT. What it holds of the same settings is kept."""
    record: int = 0
    """Make videos of this many episodes, the first ones."""
    renderer: str = "auto"
    """What paints the videos: auto, plain, warp or egl; see `rearrange doctor`."""
    episode_timeout_s: float = 900.0
    """A worker that has no result after this many seconds counts as dead."""
    max_restarts: int = 3
    """So many dead workers are replaced and their episodes repeated; one more ends the run. With
    scheme=ray, where machines come and go: so many for each episode."""

    def __post_init__(self) -> None:
        _check(self.num_episodes >= 1, f"num_episodes must be at least 1, got {self.num_episodes}")
        _check(self.num_workers >= 0, f"num_workers must not be negative, got {self.num_workers}")
        _check(self.scheme in ("local", "ray"), f"scheme must be local or ray, got {self.scheme}")
        is_there = self.address is None or self.scheme == "ray"
        _check(is_there, f"address={self.address} is for scheme=ray, got scheme={self.scheme}")
        _check(self.record >= 0, f"record must not be negative, got {self.record}")
        _check(self.seed >= 0, f"seed must not be negative, got {self.seed}")
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
    split: str = "val"
    """Which apartments: train, val or test."""
    index: int = 0
    """Which episode."""
    seed: int = 0
    """Seed of the episodes."""
    episodes: str | None = None
    """Take the episode from this file, by its place there, instead of by split and seed."""
    output: str = "outputs/episode.mp4"
    """The video file, ending in .mp4."""
    renderer: str = "auto"
    """What paints the pictures: auto, plain, warp or egl; see `rearrange doctor`."""

    def __post_init__(self) -> None:
        _check(self.index >= 0, f"index must not be negative, got {self.index}")
        _check(self.seed >= 0, f"seed must not be negative, got {self.seed}")
        _check(self.output.endswith(".mp4"), f"output must end in .mp4, got {self.output}")


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
    """For PDDL files: states to look at before giving up; by default some 30 s of them."""
    timeout_s: float | None = None
    """For PDDL files: seconds of search before giving up; by default only max_nodes counts."""
    output: str | None = None
    """For an episode: also write its PDDL problem to this file."""

    def __post_init__(self) -> None:
        _check(self.index >= 0, f"index must not be negative, got {self.index}")
        _check(self.seed >= 0, f"seed must not be negative, got {self.seed}")
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
class ViewCfg(AgentSettings):
    task: TaskCfg = field(default_factory=TaskCfg)
    """A task's name, see `rearrange list`."""
    agent: str = "you"
    """`you` drives with the keyboard; any other agent of `rearrange list` drives by itself."""
    split: str = "val"
    """Which apartments: train, val or test."""
    index: int = 0
    """The first episode to be shown."""
    seed: int = 0
    """Seed of the episodes."""
    port: int = 8000
    """Port of the page on this machine (127.0.0.1); 0 takes a free one."""
    renderer: str = "auto"
    """What paints the pictures: auto, plain, warp or egl; see `rearrange doctor`."""

    def __post_init__(self) -> None:
        _check(self.index >= 0, f"index must not be negative, got {self.index}")
        _check(self.seed >= 0, f"seed must not be negative, got {self.seed}")
        _check(0 <= self.port <= 65535, f"port must lie in [0, 65535], got {self.port}")


@dataclass(kw_only=True)
class BenchCfg:
    what: str = MISSING
    """What to measure: sim; for others see `rearrange help bench trainers` and `bench scaling`."""
    output: str | None = None
    """Also write the figures to this JSON file."""
    num_steps: int = 10_000
    """Steps of Pick for env.step."""
    num_resets: int = 100
    """Resets of training episodes."""
    num_images: int = 30
    """Images for each way to render depth."""
    seed: int = 0
    """Seed of the episodes and of the random actions."""

    def __post_init__(self) -> None:
        _check(self.what == "sim", f"unknown bench '{self.what}': {_BENCHES}")
        for name in ("num_steps", "num_resets", "num_images"):
            value = getattr(self, name)
            _check(value >= 1, f"{name} must be at least 1, got {value}")
        _check(self.seed >= 0, f"seed must not be negative, got {self.seed}")


@dataclass(kw_only=True)
class BenchTrainersCfg:
    what: str = "trainers"
    """What to measure: the trainer's modes, in one run."""
    output: str | None = None
    """Also write the table to this JSON file."""
    workloads: str = "straggler,open_fridge,pick"
    """straggler (environments that sleep) and skills of the home, with commas."""
    modes: str = "ver,nover,ddppo,htsrl,async"
    """Ways to collect and learn, with commas."""
    num_envs: int = 16
    """Environments of every run."""
    num_steps: int = 128
    """Steps of one environment in a rollout; a rollout has num_envs times as many."""
    num_rollouts: int = 8
    """Rollouts that are measured with sleeping environments."""
    home_rollouts: int = 3
    """Rollouts that are measured in the home."""
    repeats: int = 1
    """So often all is measured, in turn, so that what else the machine does falls on all alike."""
    warmup_rollouts: int = 1
    """Rollouts before the clock starts."""
    seed: int = 0
    """Seed of environments, weights and actions."""
    device: str = "auto"
    """Where the network runs: auto, cpu, cuda or cuda:N."""
    policy: str = "small"
    """The network's preset in the home."""
    precision: str = "auto"
    """Of our encoder in the home: float32, bfloat16, or auto, as the skills are trained: for the
    small preset bfloat16 where the processor has it."""
    min_batch: int = 4
    """collector.min_batch of our trainer in the home, as the skills are trained."""
    envs_per_worker: int = 0
    """workers.envs_per_worker of our trainer in the home, as the skills are trained: 0 leaves two
    processes to each core. An environment that sleeps has a process of its own."""
    num_inference_workers: int = 2
    """collector.num_inference_workers with sleeping environments; a batch of DD-PPO's is always of
    all environments, and one worker's."""
    camera_size: int = 64
    """Pixels per side of the depth image in the home."""
    peers: str = "auto"
    """Other trainers: auto (those that are installed), none, or sb3,sample_factory."""
    peers_python: str | None = None
    """A Python that has the peers installed; none: this one."""
    keep_dir: str | None = None
    """Keep the run directories here; none: they are temporary."""

    def __post_init__(self) -> None:
        _check(self.what == "trainers", f"unknown bench '{self.what}': {_BENCHES}")
        sizes = ("num_envs", "num_steps", "num_rollouts", "home_rollouts", "camera_size")
        for name in (*sizes, "repeats", "min_batch", "num_inference_workers"):
            value = getattr(self, name)
            _check(value >= 1, f"{name} must be at least 1, got {value}")
        known = ("auto", "float32", "bfloat16")
        is_known = self.precision in known
        _check(is_known, f"precision must be one of {', '.join(known)}; got {self.precision}")
        for name in ("warmup_rollouts", "seed", "envs_per_worker"):
            value = getattr(self, name)
            _check(value >= 0, f"{name} must not be negative, got {value}")


@dataclass(kw_only=True)
class BenchScalingCfg:
    what: str = "scaling"
    """What to measure: how the trainer's speed grows with ranks."""
    output: str | None = None
    """Also write the figures to this JSON file, and a plot beside it."""
    ranks: list[int] = field(default_factory=lambda: [1, 2, 4, 8, 16])
    """Numbers of ranks to measure, all on this machine; 1 is always among them."""
    ways: str = "ver,ver_waits,nover,nover_stops,ddppo"
    """Modes with their rule for stragglers, with commas; ver_waits and nover have none."""
    num_envs: int = 16
    """Sleeping environments of a rank."""
    num_steps: int = 16
    """Steps of one environment in a rollout."""
    num_rollouts: int = 8
    """Rollouts that are measured."""
    warmup_rollouts: int = 5
    """Rollouts before the clock starts; preemption begins with the sixth rollout."""
    slow_motion: float = 8.0
    """Steps take so many times longer than in R1, lest the ranks keep this machine's cores busy."""
    rank_spread: float = 0.1
    """Sigma of the lognormal factor by which each rank is slower than others."""
    episode_spread: float = 0.2
    """Sigma of the lognormal factor by which each episode is slower than others."""
    gradient_size: int = 100_000
    """Numbers in a gradient; the ranks average it for real, on this machine's cores."""
    simulated_ranks: list[int] = field(default_factory=lambda: [8, 16, 32, 64, 128, 256, 512, 1024])
    """Numbers of ranks to simulate; [] for none."""
    draws: int = 200
    """Random timings on which the choice of when to stop is compared with the best one."""
    seed: int = 0
    """Seed of all times and draws."""
    keep_dir: str | None = None
    """Keep what is measured here; the same command then measures only what is missing."""

    def __post_init__(self) -> None:
        _check(self.what == "scaling", f"unknown bench '{self.what}': {_BENCHES}")
        counts = ("num_envs", "num_steps", "num_rollouts", "warmup_rollouts", "gradient_size")
        for name in (*counts, "draws"):
            value = getattr(self, name)
            _check(value >= 1, f"{name} must be at least 1, got {value}")
        for name in ("rank_spread", "episode_spread", "seed"):
            value = getattr(self, name)
            _check(value >= 0, f"{name} must not be negative, got {value}")
        _check(self.slow_motion > 0, f"slow_motion must be positive, got {self.slow_motion}")
        _check(bool(self.ranks), "ranks must name at least one number")
        for name in ("ranks", "simulated_ranks"):
            for value in getattr(self, name):
                _check(1 <= value <= 4096, f"{name} must lie in [1, 4096], got {value}")
        steps = self.num_envs * self.num_steps
        _check(steps % 2 == 0, f"num_envs x num_steps must be even, got {steps}")


@dataclass(kw_only=True)
class DoctorCfg:
    output: str | None = None
    """Also write the findings to this JSON file."""
    timeout_s: float = 60.0
    """How long one renderer may take to show that it works."""

    def __post_init__(self) -> None:
        room = f"(0, {LONGEST_S:g}]"
        is_right = 0.0 < self.timeout_s <= LONGEST_S
        _check(is_right, f"timeout_s must lie in {room}, got {self.timeout_s}")


@dataclass(kw_only=True)
class EpisodesCfg:
    what: str = MISSING
    """`generate` makes an episode file, `check` reads one and reports what is wrong with it."""
    task: TaskCfg = field(default_factory=TaskCfg)
    """generate: for this task."""
    split: str = "val"
    """generate: in these apartments: train, val or test."""
    homes: str = "hab"
    """generate: HAB's apartments, or procedural homes."""
    num_episodes: int = 100
    """generate: so many episodes, from index 0."""
    seed: int = 0
    """generate: seed of the episodes."""
    output: str | None = None
    """generate: the file to write, ending in .json.gz."""
    file: str | None = None
    """check: the file to read."""

    def __post_init__(self) -> None:
        choices = "choose from generate, check"
        _check(self.what in ("generate", "check"), f"unknown '{self.what}': {choices}")
        _check(self.num_episodes >= 1, f"num_episodes must be at least 1, got {self.num_episodes}")
        _check(self.seed >= 0, f"seed must not be negative, got {self.seed}")
        if self.what == "generate":
            _check(self.output is not None, "episodes generate needs output=FILE.json.gz")
        else:
            _check(self.file is not None, "episodes check needs file=FILE.json.gz")


@dataclass(kw_only=True)
class ExportSkillCfg:
    run: str = MISSING
    """The folder of a training run, of whichever environment; its newest whole checkpoint is taken.
    Or one of them, RUN/checkpoints/000000524288.json, or a skill file."""
    output: str = MISSING
    """The file, ending in .safetensors or .onnx; `skills=FOLDER` finds a skill of the home by its
    name, NAME.safetensors."""
    format: str = "safetensors"  # noqa: A003
    """safetensors, a skill file; or onnx, a model that acts without noise, with the memory among
    its inputs and outputs."""
    average: list[str] = field(default_factory=list)
    """Further runs or skill files of the same skill whose weights are averaged with the run's."""
    max_megabytes: float = 6.0
    """A larger file is refused: skills are to be shipped with the package."""

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
    """Folders of training runs, as bare words; runs that differ in their seed make one curve."""
    output: str = "outputs/curves.png"
    """The picture: .png, .svg or .pdf."""
    x: str = "step"
    """What runs to the right: step (of the environments) or time (s)."""
    metrics: list[str] = field(default_factory=lambda: ["episode/success", "episode/return"])
    """What runs upwards, a panel each: names from metrics.jsonl."""
    smooth: int = 1
    """Mean over so many updates; 1: every update as it is."""

    def __post_init__(self) -> None:
        _check(bool(self.runs), "plot needs the folder of at least one run")
        _check(self.x in ("step", "time"), f"x must be step or time, got {self.x}")
        _check(bool(self.metrics), "metrics must name at least one")
        _check(self.smooth >= 1, f"smooth must be at least 1, got {self.smooth}")


@dataclass(kw_only=True)
class LaunchCfg:
    skills: list[str] = field(default_factory=list)
    """Train these skills of the home, with commas."""
    envs: list[str] = field(default_factory=list)
    """Train in these Gymnasium environments, with commas."""
    seeds: list[int] = field(default_factory=lambda: [0])
    """Train each of them with each of these seeds."""
    run_root: str = "runs"
    """Folder of the runs, which all machines see; each is named by what, mode and seed."""
    passed_on: list[str] = field(default_factory=list)
    """All other words: settings of each training."""

    def __post_init__(self) -> None:
        _check(bool(self.skills or self.envs), "launch needs skills=... or envs=...")
        _check(bool(self.seeds), "seeds must name at least one")
        for name in ("skills", "envs", "seeds"):
            values = getattr(self, name)
            _check(len({*values}) == len(values), f"{name} must not name anything twice")


@dataclass(kw_only=True)
class TrainSkillsCfg:
    skills: list[str] = field(default_factory=list)
    """Train these, with commas; none: all seven."""
    preset: str = "laptop"
    """Whose stages: laptop, for two cores, or paper, for a GPU."""
    seed: int = 0
    """Of every stage."""
    output: str | None = None
    """Folder of the skills and their runs; none: runs/skills-PRESET-SEED."""
    stop_after: str | None = None
    """Leave out the stages after this one."""
    jobs: int = 1
    """So many stages at a time, of different skills; they share the cores."""
    max_hours: float = 0.0
    """Save and stop after so many hours, with exit code 75; the same command goes on. 0: never."""
    evaluate_episodes: int = 0
    """Evaluate each skill's file in so many validation episodes. 0: none."""
    evaluate_stages: bool = False
    """Evaluate in the same episodes what each stage has made, too."""
    passed_on: list[str] = field(default_factory=list)
    """All other words: settings of each stage's training."""

    def __post_init__(self) -> None:
        known = ("laptop", "paper")
        _check(self.preset in known, f"preset must be one of {', '.join(known)}, got {self.preset}")
        _check(self.jobs >= 1, f"jobs must be at least 1, got {self.jobs}")
        is_right = len({*self.skills}) == len(self.skills)
        _check(is_right, "skills must not name anything twice")
        for name in ("seed", "max_hours", "evaluate_episodes"):
            value = getattr(self, name)
            _check(value >= 0, f"{name} must not be negative, got {value}")
        is_right = self.evaluate_episodes > 0 or not self.evaluate_stages
        _check(is_right, "evaluate_stages=true needs evaluate_episodes, such as 200")


@dataclass(kw_only=True)
class ChaosCfg:
    output: str | None = None
    """Also write the findings to this JSON file."""
    seed: int = 0
    """Seed of the runs and of the moments at which things are broken."""
    quick: bool = False
    """Only the faults that are tried within seconds."""
    soak_minutes: float = 0.0
    """Instead of the faults: train for so long and watch memory and open files. 0: the faults."""
    soak_kills: float = 0.0
    """In the soak two ranks are killed as it goes on: 1 for a worker every 20 s, a rank every 5
    minutes and all of them every 20; 4 for four times as often. 0: nobody is."""
    pairs: int = 0
    """Instead of the faults: in so many trainings kill a worker and the fork server together."""

    def __post_init__(self) -> None:
        _check(self.seed >= 0, f"seed must not be negative, got {self.seed}")
        minutes = self.soak_minutes
        _check(minutes >= 0.0, f"soak_minutes must not be negative, got {minutes}")
        kills = self.soak_kills
        _check(kills >= 0.0, f"soak_kills must not be negative, got {kills}")
        _check(not kills or minutes > 0.0, f"soak_kills={kills:g} needs soak_minutes, such as 120")
        _check(self.pairs >= 0, f"pairs must not be negative, got {self.pairs}")
