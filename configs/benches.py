"""Settings of the benchmark and diagnosis verbs: `bench ...`, `chaos` and `doctor`."""

from dataclasses import dataclass, field

from rearrange.configs.checks import LONGEST_S, MISSING, check_number
from rearrange.configs.checks import check as _check

_BENCHES = "choose from sim, homes, trainers, scaling, bridge, staggered-resets"


@dataclass(kw_only=True)
class BenchCfg:
    what: str = MISSING
    """What to measure: sim; for others see `rearrange help bench homes`, `bench trainers`,
    `bench scaling`, `bench bridge` and `bench staggered-resets`."""
    output: str | None = None
    """Also write the measurements to this JSON file."""
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
        check_number("seed", self.seed)


@dataclass(kw_only=True)
class BenchHomesCfg:
    what: str = "homes"
    """What to measure: N homes in one process."""
    output: str | None = None
    """Also write the measurements to this JSON file."""
    num_envs: int = 32
    """Homes in the process, and single ones beside them."""
    threads: list[int] = field(default_factory=lambda: [1, 2])
    """Numbers of threads that step them."""
    sizes: list[int] = field(default_factory=lambda: [8, 128])
    """Other numbers of homes whose speed is measured."""
    tasks: str = "pick,place,navigate,open_drawer,close_fridge,set_table"
    """Tasks whose episodes are compared with those of single homes, with commas."""
    episodes: int = 200
    """Episodes to compare, divided among the tasks."""
    num_steps: int = 100
    """Steps of all homes with each way of stepping them."""
    reset_steps: int = 660
    """Steps of all homes in which the cost of resets is measured; Pick's episodes have 300."""
    seed: int = 0
    """Seed of the episodes and of the random actions."""

    def __post_init__(self) -> None:
        _check(self.what == "homes", f"unknown bench '{self.what}': {_BENCHES}")
        for name in ("num_envs", "episodes", "num_steps", "reset_steps"):
            value = getattr(self, name)
            _check(value >= 1, f"{name} must be at least 1, got {value}")
        _check(bool(self.threads), "threads must name at least one number")
        for name in ("threads", "sizes"):
            for value in getattr(self, name):
                _check(value >= 1, f"{name} must be at least 1, got {value}")
        check_number("seed", self.seed)


@dataclass(kw_only=True)
class BenchTrainersCfg:
    what: str = "trainers"
    """What to measure: the trainer's modes, in one run."""
    output: str | None = None
    """Also write the table to this JSON file."""
    workloads: str = "straggler,open_fridge,pick"
    """straggler (environments that sleep) and skills of the home, with commas."""
    modes: str = "ver,batched,nover,ddppo,htsrl,async"
    """Ways to collect and learn, with commas. batched: also collecting with a policy that takes no
    time, beside the homes alone."""
    num_envs: int = 16
    """Environments of every run."""
    num_steps: int = 128
    """Steps of one environment in a rollout; a rollout has num_envs times as many."""
    num_rollouts: int = 8
    """Rollouts that are measured with sleeping environments."""
    home_rollouts: int = 3
    """Rollouts that are measured in the home."""
    repeats: int = 1
    """Repeats of all measurements, interleaved, so that other load affects all alike."""
    warmup_rollouts: int = 1
    """Rollouts before the clock starts."""
    seed: int = 0
    """Seed of environments, weights and actions."""
    device: str = "auto"
    """Where the network runs: auto, cpu, cuda or cuda:N."""
    policy: str = "small"
    """The network's preset in the home."""
    precision: str = "auto"
    """Precision of our encoder in the home: float32, bfloat16, or auto, as skills are trained: for
    the small preset bfloat16 if the processor supports it."""
    min_batch: int = 4
    """collector.min_batch of our trainer in the home, as the skills are trained."""
    envs_per_worker: int = 0
    """workers.envs_per_worker of our trainer in the home, as the skills are trained: 0 means two
    processes per core. Sleeping environments have a process each."""
    num_inference_workers: int = 2
    """collector.num_inference_workers with sleeping environments; DD-PPO always has one worker and
    batches of all environments."""
    num_groups: int = 1
    """batched.num_groups of mode batched in the home."""
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
        for name in (*sizes, "repeats", "min_batch", "num_inference_workers", "num_groups"):
            value = getattr(self, name)
            _check(value >= 1, f"{name} must be at least 1, got {value}")
        most, got = self.num_envs, self.num_groups
        _check(got <= most, f"num_groups must be at most num_envs ({most}), got {got}")
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
    """Also write the measurements to this JSON file, and a plot beside it."""
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
    """Factor on the step times of R1, so that the ranks do not saturate this machine's cores."""
    rank_spread: float = 0.1
    """Sigma of the lognormal factor by which each rank is slower than others."""
    episode_spread: float = 0.2
    """Sigma of the lognormal factor by which each episode is slower than others."""
    gradient_size: int = 100_000
    """Numbers in a gradient; the ranks average it for real, on this machine's cores."""
    simulated_ranks: list[int] = field(default_factory=lambda: [8, 16, 32, 64, 128, 256, 512, 1024])
    """Numbers of ranks to simulate; [] for none."""
    draws: int = 200
    """Random timings on which the stopping rule is compared with the optimum."""
    seed: int = 0
    """Seed of all times and draws."""
    keep_dir: str | None = None
    """Keep measurements here; the same command then measures only what is missing."""

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
class BenchBridgeCfg:
    what: str = "bridge"
    """What to measure: workers of another Python, beside our own."""
    output: str | None = None
    """Also write the measurements to this JSON file."""
    python: str | None = None
    """The other Python, which needs CartPole-v1 of gym or Gymnasium; none: this one."""
    num_steps: int = 20_000
    """Steps of CartPole with each."""
    num_kills: int = 100
    """Number of times that a worker is killed."""

    def __post_init__(self) -> None:
        _check(self.what == "bridge", f"unknown bench '{self.what}': {_BENCHES}")
        for name in ("num_steps", "num_kills"):
            value = getattr(self, name)
            _check(value >= 1, f"{name} must be at least 1, got {value}")


@dataclass(kw_only=True)
class BenchStaggeredCfg:
    what: str = "staggered-resets"
    """What to measure: the toy of the paper on staggered resets, with and without them."""
    output: str | None = None
    """Also write the measurements to this JSON file, a plot and the table beside it."""
    keep_dir: str | None = None
    """Keep each training's metrics here; the same command then trains only what is missing."""
    horizon: int = 200
    """Horizon at which value errors and forgetting are measured."""
    progression: float = 0.1
    """Probability that a gate opens without mastery, there."""
    seeds: int = 10
    """Trainings of each kind, there."""
    horizons: list[int] = field(default_factory=lambda: [50, 100, 200, 300, 400, 500])
    """Horizons over which success is compared; [] for none."""
    sweep_seeds: int = 10
    """Trainings of each kind at each of these horizons."""
    num_envs: int = 512
    """Chains that are stepped together."""
    num_updates: int = 150
    """Updates of a training; each learns from five steps of every chain."""

    def __post_init__(self) -> None:
        is_known = self.what == "staggered-resets"
        _check(is_known, f"unknown bench '{self.what}': {_BENCHES}")
        for name in ("seeds", "sweep_seeds", "num_envs", "num_updates"):
            value = getattr(self, name)
            _check(value >= 1, f"{name} must be at least 1, got {value}")
        for name, values in (("horizon", [self.horizon]), ("horizons", self.horizons)):
            for value in values:
                is_right = value >= 10 and value % 5 == 0
                _check(is_right, f"{name} must be a multiple of 5 from 10 on, got {value}")
        is_chance = 0.0 <= self.progression <= 1.0
        _check(is_chance, f"progression must lie in [0, 1], got {self.progression}")


@dataclass(kw_only=True)
class ChaosCfg:
    output: str | None = None
    """Also write the findings to this JSON file."""
    seed: int = 0
    """Seed of the runs and of the times of the faults."""
    quick: bool = False
    """Only faults that take seconds."""
    soak_minutes: float = 0.0
    """Instead of the faults: train for this long and watch memory and open files. 0: the faults."""
    soak_kills: float = 0.0
    """Kills during the soak with two ranks: 1: a worker every 20 s, a rank every 5 minutes and all
    of them every 20; 4: four times as often. 0: none."""
    pairs: int = 0
    """Instead of the faults: kill a worker and the fork server together, in this many trainings."""

    def __post_init__(self) -> None:
        check_number("seed", self.seed)
        minutes = self.soak_minutes
        _check(
            minutes == 0.0 or minutes >= 1.0,  # a slope needs samples, one every two seconds
            f"soak_minutes must be 0 or at least 1, got {minutes:g}",
        )
        kills = self.soak_kills
        _check(kills >= 0.0, f"soak_kills must not be negative, got {kills}")
        _check(not kills or minutes > 0.0, f"soak_kills={kills:g} needs soak_minutes, such as 120")
        _check(self.pairs >= 0, f"pairs must not be negative, got {self.pairs}")


@dataclass(kw_only=True)
class DoctorCfg:
    output: str | None = None
    """Also write the findings to this JSON file."""
    timeout_s: float = 60.0
    """Time limit for testing a renderer (s)."""
    python: str | None = None
    """Also check this Python, as for `train workers.python=`."""

    def __post_init__(self) -> None:
        room = f"(0, {LONGEST_S:g}]"
        is_right = 0.0 < self.timeout_s <= LONGEST_S
        _check(is_right, f"timeout_s must lie in {room}, got {self.timeout_s}")
