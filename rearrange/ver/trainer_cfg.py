"""TrainerCfg: all settings of a training, and the modes.

    mode     rollout                        interleaving
    ver      S steps, more of quick ones    collect, then learn
    nover    T steps from each environment  collect, then learn
    ddppo    T steps each, all in step      collect, then learn
    htsrl    T steps each                   learn while the next rollout is collected
    async    S steps, more of quick ones    collecting never waits; weights change meanwhile
    batched  T steps each, all in step      collect, then learn; one vector environment, no workers

With start_mode=staggered, mode batched leaves out environments that wait for a gate: S steps of the
others. With workers none waits.

VER paper (Wijmans et al., 2022), sections 2 and 5, appendix E. The defaults are its table A1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from rearrange.ver.batched.start_cfg import BatchedCfg, StaggeredStartCfg
from rearrange.ver.ranks.preemption import PreemptionCfg
from rearrange.ver.rollout.collector import CollectorCfg
from rearrange.ver.run.weights_and_biases import check_logger
from rearrange.ver.sapg.blocks import SapgCfg
from rearrange.ver.update.entropy import EntropyCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.update.returns import ReturnsCfg
from rearrange.ver.update.schedules import SCHEDULES
from rearrange.ver.workers.environment_worker import STAGGERED
from rearrange.ver.workers.pool import PoolCfg


class Mode(NamedTuple):
    is_variable: bool
    is_lockstep: bool
    interleaving: str


MODES = {
    "ver": Mode(True, False, "alternating"),
    "nover": Mode(False, False, "alternating"),
    "ddppo": Mode(False, True, "alternating"),
    "htsrl": Mode(False, False, "overlapped"),
    "async": Mode(True, False, "free"),
    "batched": Mode(True, True, "alternating"),
}

ALONE_MODES = ("async", "batched")  # of one process: the other modes may have ranks
MOST_EPISODES = 2**40  # leaves room for those of a training, up to the 2^53 that checkpoints hold
EPISODE_NUMBERS = ("return", "length", "finished", "averaged")  # episode/... of any environment
MAX_ROLLOUT = 2**26  # steps; 8 GB for every 32 numbers of an observation


@dataclass(kw_only=True)
class TrainerCfg:
    mode: str = "ver"
    """ver, nover, ddppo, htsrl, async or batched."""
    serial: bool = False
    """All in one process: for tests and debugging; resumes bit-identically, as batched does."""
    total_steps: int = 1_000_000
    """Environment steps to learn from, of all ranks together."""
    num_envs: int = 16
    """Environments (N) of each rank."""
    num_steps: int = 128
    """Steps of a rollout for each environment, on average (T)."""
    seed: int = 0
    """Seed of weights, actions, minibatches and, with their indices, environments."""
    first_episode: int = 0
    """Number of each environment's first episode; with the seed it determines the episode. Stages
    of a skill begin a million apart: no stage has an earlier one's episodes. A resumed training
    goes on behind its own episodes, whatever is given."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    num_threads: int = 0
    """torch's threads while learning; 0: one without images, else one for each free core."""
    overlap: bool = False
    """Collect the next rollout while learning from this one, with a policy one rollout old."""
    collector: CollectorCfg = field(default_factory=CollectorCfg)
    workers: PoolCfg = field(default_factory=PoolCfg)
    batched: BatchedCfg = field(default_factory=BatchedCfg)
    """Settings of mode=batched."""
    start_mode: str = "off"
    """How starts are spread over time: off, clock, advance or staggered, which ends episodes after
    start_horizon steps."""
    start_horizon: int = 0
    """Steps over which starts are spread; 0: num_steps. For staggered: a whole episode's steps."""
    stagger: StaggeredStartCfg = field(default_factory=StaggeredStartCfg)
    """Settings of start_mode=staggered."""
    repeat_failed: float = 0.0
    """Probability that an episode without success is repeated: more steps on what the policy cannot
    do yet. Success in training is then measured on these episodes."""
    ppo: PPOCfg = field(default_factory=PPOCfg)
    returns: ReturnsCfg = field(default_factory=ReturnsCfg)
    entropy: EntropyCfg = field(default_factory=EntropyCfg)
    sapg: SapgCfg = field(default_factory=SapgCfg)
    """Several policies on shared layers, in blocks of environments."""
    schedule: str = "cosine"
    """Learning-rate schedule: cosine, linear or constant."""
    max_importance_weight: float = 1.0
    """Truncation of the importance weights for uneven sampling; rollouts of a fixed length are
    uneven too if they are cut short."""
    async_correction: str = "clip"
    """Correction for off-policy data in mode async: clip (PPO's ratio) or vtrace."""
    reward_scale: float = 1.0
    """Factor on rewards before learning; reported returns are unscaled."""
    normalize_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""
    on_nonfinite: str = "stop"
    """stop or drop: what to do with numbers that are not finite, from environments or losses."""
    preemption: PreemptionCfg = field(default_factory=PreemptionCfg)
    """When a rank stops collecting because the others wait for it."""
    ranks_timeout_s: float = 600.0
    """Longest wait for other ranks (s); then the training ends."""
    checkpoint_interval_s: float = 300.0
    """Time between checkpoints (s); one more is written at the end."""
    keep_checkpoints: int = 3
    """Number of newest checkpoints to keep. The best is kept too: that with the highest
    episode/success in the metrics or, where there is none, episode/return. Imitation has none
    unless guide.watch_every is 2, as the teacher drives in most episodes: validation.every."""
    keep_milestones: int = 10
    """Further checkpoints to keep, spread evenly over total_steps; 0: none."""
    resume: str = "no"
    """no, or auto: resume from the newest valid checkpoint in run_dir, if there is one."""
    logger: str = "tensorboard"
    """Where metrics, settings and films are shown: tensorboard, or wandb (pip install wandb;
    WANDB_MODE=offline keeps it on this machine). metrics.jsonl has the numbers in any case."""
    info_keys: list[str] = field(default_factory=lambda: ["success"])
    """Keys of an episode's last info to average, `a/b` for nested ones."""

    def __post_init__(self) -> None:
        known = {
            "mode": tuple(MODES), "start_mode": ("off", "clock", "advance", STAGGERED),
            "schedule": tuple(SCHEDULES), "async_correction": ("clip", "vtrace"),
            "on_nonfinite": ("stop", "drop"), "resume": ("no", "auto"),
        }  # fmt: skip
        for name, choices in known.items():
            if getattr(self, name) not in choices:
                got = getattr(self, name)
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got '{got}'")
        for name in ("total_steps", "num_envs", "num_steps", "keep_checkpoints"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (
            "seed", "first_episode", "num_threads", "start_horizon", "checkpoint_interval_s",
            "keep_milestones",
        ):  # fmt: skip
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.first_episode > MOST_EPISODES:
            raise ValueError(
                f"first_episode must be at most {MOST_EPISODES}, got {self.first_episode}"
            )
        most = {"max_importance_weight": 1e9, "reward_scale": 1e9, "ranks_timeout_s": 1e6}
        for name, high in most.items():
            if not 0 < getattr(self, name) <= high:
                got = getattr(self, name)
                raise ValueError(f"{name} must lie in (0, {high:g}], got {got}")
        if not 0.0 <= self.repeat_failed <= 1.0:
            raise ValueError(f"repeat_failed must lie in [0, 1], got {self.repeat_failed}")
        if self.num_envs >= 65536:
            raise ValueError(f"num_envs must be below 65536, got {self.num_envs}")
        steps, parts = self.num_envs * self.num_steps, self.ppo.num_minibatches
        if steps > MAX_ROLLOUT:
            raise ValueError(
                f"num_envs x num_steps must be at most {MAX_ROLLOUT}, got {self.num_envs} x "
                f"{self.num_steps}"
            )
        if steps % parts:
            raise ValueError(
                f"num_envs x num_steps ({self.num_envs} x {self.num_steps} = {steps}) must be "
                f"divisible by ppo.num_minibatches ({parts})"
            )
        if self.serial and (self.overlap or MODES[self.mode].interleaving != "alternating"):
            raise ValueError(
                f"serial=true runs ver, nover and ddppo without overlap; got mode {self.mode}, "
                f"overlap {str(self.overlap).lower()}"
            )
        if self.overlap and MODES[self.mode].interleaving == "free":
            raise ValueError("overlap=true means nothing in mode async, which always overlaps")

        taken = [name for name in self.info_keys if name in EPISODE_NUMBERS]
        if taken:
            raise ValueError(
                f"info_keys must not be {', '.join(EPISODE_NUMBERS)}, whose episode/... are the "
                f"trainer's own; got {', '.join(taken)}"
            )
        check_logger(self.logger)
        self.sapg.check(self.num_envs, self.num_steps)
        _check_staggered(self)
        _check_batched(self)

    @property
    def interleaving(self) -> str:
        """How collecting and learning interleave: alternating, overlapped or free."""
        return "overlapped" if self.overlap else MODES[self.mode].interleaving

    @property
    def num_storages(self) -> int:
        """Rollouts in memory at a time: being filled, learned from, or waiting for either."""
        return {"alternating": 1, "overlapped": 2, "free": 3}[self.interleaving]

    @property
    def steps_per_rollout(self) -> int:
        """S."""
        return self.num_envs * self.num_steps


def stagger_values(cfg: TrainerCfg) -> dict[str, Any] | None:
    """What the times of staggered resets follow from, as JSON; None: they are not staggered."""
    if cfg.start_mode != STAGGERED:
        return None
    return {
        "start_horizon": cfg.start_horizon, "num_steps": cfg.num_steps, **asdict(cfg.stagger)
    }  # fmt: skip


def _check_staggered(cfg: TrainerCfg) -> None:
    """Raises ValueError for groups that do not fit the horizon or the start mode."""
    if cfg.start_mode != STAGGERED:
        if cfg.stagger != StaggeredStartCfg():
            raise ValueError(
                f"stagger.NAME settings are for start_mode=staggered, got "
                f"start_mode={cfg.start_mode}"
            )
        return
    if not cfg.start_horizon:
        raise ValueError("start_mode=staggered needs start_horizon: the steps of a whole episode")
    if cfg.stagger.num_groups > cfg.start_horizon:
        raise ValueError(
            f"stagger.num_groups must lie in [0, {cfg.start_horizon}] (start_horizon), got "
            f"{cfg.stagger.num_groups}"
        )


def _check_batched(cfg: TrainerCfg) -> None:
    """Raises ValueError for settings that do not fit the mode, batched or another."""
    if cfg.mode != "batched":
        if cfg.batched != BatchedCfg():
            raise ValueError(f"batched.NAME settings are for mode=batched, got mode={cfg.mode}")
        return
    if cfg.batched.num_groups > cfg.num_envs:
        raise ValueError(
            f"batched.num_groups must be at most num_envs ({cfg.num_envs}), got "
            f"{cfg.batched.num_groups}"
        )
    if cfg.overlap:
        raise ValueError("mode=batched collects and learns in turn: it needs overlap=false")
    if cfg.workers.python is not None:
        raise ValueError(
            "mode=batched steps the environments in this process: workers.python="
            f"{cfg.workers.python} is for the other modes"
        )
