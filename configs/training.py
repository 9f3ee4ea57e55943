"""The settings of `rearrange train` and `rearrange train-skill`.

They are the trainer's own (`TrainerCfg`, with `ppo`, `returns` and `entropy` as parts), the network
(`PolicyCfg`) and what is trained: a Gymnasium environment, or a skill of the home. Separate from
`schema.py` because the owners of these classes import torch.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearrange.cluster.scheme import SPREAD, SchemeCfg
from rearrange.configs.backend import HabitatCfg, check_backend
from rearrange.configs.schema import MISSING
from rearrange.configs.stages import PRESETS
from rearrange.skills.network.policy import NETWORKS
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.skills.teacher.guide_cfg import GuideCfg
from rearrange.ver.trainer_cfg import ALONE_MODES, TrainerCfg
from rearrange.ver.update.algorithm import ALGORITHMS
from rearrange.ver.update.imitation import ImitationCfg
from rearrange.ver.update.ppo_learner import STANDARD


@dataclass(kw_only=True)
class NamedPolicyCfg(PolicyCfg):
    name: str = "small"
    """The preset's name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.network = NETWORKS.name_of(
            self.network
        )  # given by the user, so it may import a module


@dataclass(kw_only=True)
class ValidationCfg:
    """Episodes that the policy does not learn from, as `evaluate` runs them."""

    every: int = 0
    """Environment steps between evaluations, and one at the end; the training waits for them. They
    then determine the best checkpoint. 0: never."""
    num_episodes: int = 50
    """Episodes of the validation split, with most likely actions, the same ones each time."""
    record: int = 1
    """Number of them to film; TensorBoard shows the films too."""

    def __post_init__(self) -> None:
        for name, low in (("every", 0), ("num_episodes", 1), ("record", 0)):
            if getattr(self, name) < low:
                got = getattr(self, name)
                raise ValueError(f"validation.{name} must be at least {low}, got {got}")


@dataclass(kw_only=True)
class RunCfg(TrainerCfg):
    """Settings of both verbs."""

    policy: NamedPolicyCfg = field(default_factory=NamedPolicyCfg)
    """The network; single sizes with policy.NAME=VALUE."""
    scheme: SchemeCfg = field(default_factory=SchemeCfg)
    """How it runs: in one process, with workers (also as a rank of torchrun), as several ranks on
    this machine, or on Ray."""
    algorithm: str = STANDARD
    """The algorithm: ppo, or your own, my_module:MyAlgorithm. Imitation is method=imitation of
    train-skill."""
    algorithm_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of your own algorithm: algorithm_kwargs.NAME=VALUE."""
    env_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of the environment: env_kwargs.NAME=VALUE."""
    warm_start: str | None = None
    """Initial weights: the folder of a run, a skill file, or the name of a skill of the package. A
    network without their pictures leaves these out."""
    fresh_log_std: bool = False
    """With warm_start: start with policy.initial_log_std instead of the file's log-std."""
    validation: ValidationCfg = field(default_factory=ValidationCfg)
    """Periodic evaluation on validation episodes during training."""
    run_dir: str | None = None
    """Folder of the run; none: runs/NAME-MODE-SEED."""
    given: Any = None
    """The command line (`rearrange.commands.overrides.ParsedOverrides`)."""

    @property
    def folder(self) -> Path:
        """`run_dir` as a path, once it is set."""
        assert self.run_dir is not None
        return Path(self.run_dir)

    def __post_init__(self) -> None:
        self.serial |= self.scheme.name == "serial"
        super().__post_init__()
        self.algorithm = ALGORITHMS.name_of(self.algorithm)  # may import the user's module
        _check_algorithm(self)
        if self.policy.num_blocks not in (1, self.sapg.num_blocks):
            raise ValueError(
                f"policy.num_blocks follows sapg.num_blocks ({self.sapg.num_blocks}): leave it "
                f"out, got {self.policy.num_blocks}"
            )
        self.policy.num_blocks = self.sapg.num_blocks
        if self.serial and self.workers.python is not None:
            raise ValueError(
                "serial=true steps the environments in this process: workers.python="
                f"{self.workers.python} needs serial=false"
            )
        if self.validation.every and self.workers.python is not None:
            raise ValueError(
                "validation.every evaluates in this Python, and workers.python="
                f"{self.workers.python} has the environments: leave one out"
            )
        if self.mode in ALONE_MODES and self.scheme.name in SPREAD:
            raise ValueError(
                f"mode={self.mode} has one process that collects and learns: it takes no "
                f"scheme={self.scheme.name}"
            )


def _check_algorithm(settings: RunCfg) -> None:
    """Raises ValueError for an algorithm that cannot be chosen by this setting."""
    if settings.algorithm == "imitation":
        raise ValueError(
            "algorithm=imitation needs a teacher: use method=imitation of train-skill instead"
        )
    if settings.algorithm == STANDARD and settings.algorithm_kwargs:
        raise ValueError(
            f"algorithm_kwargs are for your own algorithms, {STANDARD} has its own settings, "
            f"such as ppo.clip_coef; got {', '.join(settings.algorithm_kwargs)}"
        )
    if settings.algorithm != STANDARD and settings.sapg.num_blocks > 1:
        raise ValueError(
            f"sapg.num_blocks of 2 or more goes with algorithm={STANDARD}, got {settings.algorithm}"
        )


@dataclass(kw_only=True)
class TrainCfg(RunCfg):
    env: str = MISSING
    """A Gymnasium id: CartPole-v1, rearrange/Pick-v0, package.module:Id (imports the module)."""


@dataclass(kw_only=True)
class SkillCfg:
    name: str = MISSING
    """The skill's name, as in `rearrange list tasks`."""
    env: str = MISSING
    """The Gymnasium id of its training task."""


@dataclass(kw_only=True)
class TrainSkillCfg(RunCfg):
    skill: SkillCfg = MISSING
    """Which skill; the word `skill=` need not be written."""
    method: str = "ver"
    """ver, imitation (of simple rules, on the states the policy gets into), or imitation_ver."""
    stage: str | None = None
    """Train this stage of the skill instead; `train-skills` runs all stages."""
    preset: str = "laptop"
    """Whose stages: laptop, for two cores, or paper, for a GPU."""
    imitation: ImitationCfg = field(default_factory=ImitationCfg)
    guide: GuideCfg = field(default_factory=GuideCfg)
    """How policy and teacher alternate during imitation."""
    camera_stage: bool = False
    """method=imitation_ver: a last stage with the camera."""
    blind_steps: int = 0
    """Environment steps of the stage before it; 0: from its recipe."""
    camera_size: int | None = None
    """Pixels per side of the depth image; none: the network's input size."""
    action_space: str = "full"
    """full (every skill may drive), skill (as in Habitat) or stationary."""
    observation_delay: int = 1
    """Control steps from observation to action: 1 as in the VER paper, or 0."""
    backend: str = "mujoco"
    """The simulator: mujoco, or habitat, where workers step unmodified habitat-lab: method=ver."""
    habitat: HabitatCfg = field(default_factory=HabitatCfg)
    """For backend=habitat; `habitat.data` has the episodes to train in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_backend(self.backend, self.habitat)
        if self.backend == "habitat" and (self.method != "ver" or self.serial):
            raise ValueError(
                "backend=habitat needs method=ver and serial=false: teachers read our simulator's "
                f"state, and Habitat has processes of its own; got method={self.method}"
            )
        if self.backend == "habitat" and self.validation.every:
            raise ValueError(
                "validation.every evaluates in MuJoCo, and backend=habitat trains elsewhere: leave "
                "one out, and evaluate checkpoints by `rearrange evaluate backend=habitat`"
            )
        if self.camera_size is not None and self.camera_size < 8:
            raise ValueError(f"camera_size must be at least 8, got {self.camera_size}")
        if self.blind_steps < 0:
            raise ValueError(f"blind_steps must not be negative, got {self.blind_steps}")
        if self.method != "ver" and self.algorithm != STANDARD:
            raise ValueError(
                f"algorithm={self.algorithm} is for method=ver: method={self.method} has its own"
            )
        if self.method != "ver" and self.sapg.num_blocks > 1:
            raise ValueError(
                f"sapg.num_blocks of 2 or more is for method=ver, got method={self.method}"
            )
        if self.workers.python is not None:
            raise ValueError(
                "the home of train-skill runs in this Python: workers.python is for "
                f"`rearrange train`, got {self.workers.python}"
            )
        methods = ("ver", "imitation", "imitation_ver")
        if self.method not in methods:
            raise ValueError(f"method must be one of {', '.join(methods)}, got {self.method}")
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {self.preset}")
        known = ("full", "skill", "stationary")
        if self.action_space not in known:
            raise ValueError(
                f"action_space must be one of {', '.join(known)}, got {self.action_space}"
            )
        if self.observation_delay not in (0, 1):
            raise ValueError(f"observation_delay must be 0 or 1, got {self.observation_delay}")


AnyRunCfg = TrainCfg | TrainSkillCfg
