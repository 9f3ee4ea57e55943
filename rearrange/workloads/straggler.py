"""An environment that only sleeps: stragglers without a simulator.

    step   sleeps  base x factor(index, group, episode) [x slow_factor in one step of ten]
    reset  sleeps  between reset_low_s and reset_high_s, every episode_steps steps

With the defaults, 16 of these are the reference workload R1. Both kinds of straggler are there
(VER paper, section 2): slow steps, and environments that are slow at every step. Sleeping uses no
core, so that 16 of them behave on a small machine as on one with 16 cores.

Instead of the distribution a recording of a real environment can be replayed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rearrange.errors import UserError
from rearrange.system.checked_json import strict_json
from rearrange.system.files import read_whole_file, user_path

OBSERVATION_SIZE = 4
ACTION_SIZE = 2
MAX_CARRY_S = 1e-3  # lateness made up for by the next sleep; more is the machine's own delay


@dataclass(kw_only=True)
class StragglerCfg:
    """How long steps and resets take (s)."""

    base_step_s: float = 0.020
    """A step of the median environment."""
    spread: float = 0.2
    """Sigma of the lognormal factor that each environment keeps; 0: all are alike."""
    group_size: int = 1
    """This many consecutive environments share one more factor, as those of one machine would."""
    group_spread: float = 0.0
    """Sigma of that lognormal factor; 0: there is none."""
    episode_spread: float = 0.0
    """Sigma of the lognormal factor that each episode has; 0: there is none."""
    slow_factor: float = 4.0
    """Factor on the time of a slow step."""
    slow_share: float = 0.1
    """The probability of a slow step."""
    episode_steps: int = 200
    """Steps between two resets."""
    reset_low_s: float = 0.15
    """The shortest reset; they are spread evenly up to the longest."""
    reset_high_s: float = 0.6
    """The longest reset."""
    is_staggered: bool = True
    """First episodes end early, each at its own step, so that resets do not come all at once."""
    seed: int = 0
    """Seed of all times, together with the environment's index."""
    recording: str | None = None
    """A JSON file {"step_s": [...], "reset_s": [...]} to replay instead of the distribution."""

    def __post_init__(self) -> None:
        spreads = ("spread", "group_spread", "episode_spread")
        for name in ("base_step_s", *spreads, "slow_factor", "reset_low_s"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0.0 <= self.slow_share <= 1.0:
            raise ValueError(f"slow_share must lie in [0, 1], got {self.slow_share}")
        for name in ("episode_steps", "group_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.reset_high_s >= self.reset_low_s:
            raise ValueError(
                f"reset_high_s ({self.reset_high_s}) must not be below reset_low_s "
                f"({self.reset_low_s})"
            )


class StepTimes:
    """The times of environment `index`, one after another: the same for the same cfg and index.

    Raises UserError for a recording that cannot be read.
    """

    def __init__(self, cfg: StragglerCfg, index: int) -> None:
        self._cfg = cfg
        # Seeded by the index alone, as R1 requires, unless another seed is given.
        normal = np.random.default_rng(index + 1009 * cfg.seed).standard_normal()
        of_group = _rng(cfg, index // cfg.group_size, 4).standard_normal()
        self.factor = float(np.exp(cfg.spread * normal + cfg.group_spread * of_group))
        self._episode_rng, self._episode_factor = _rng(cfg, index, 5), 1.0
        self._begin_episode()
        self._step_rng, self._reset_rng = _rng(cfg, index, 1), _rng(cfg, index, 2)
        self._steps, self._resets = _read_recording(cfg.recording)
        # Replays start at different places: otherwise all environments would be slow together.
        self._step = int(self._step_rng.integers(len(self._steps))) if self._steps else 0
        self._reset = int(self._reset_rng.integers(len(self._resets))) if self._resets else 0
        phase = int(_rng(cfg, index, 3).integers(1, cfg.episode_steps + 1))
        self.first_episode_steps = phase if cfg.is_staggered else cfg.episode_steps

    @property
    def mean_step_s(self) -> float:
        if self._steps:
            return float(np.mean(self._steps))
        cfg = self._cfg
        of_episodes = float(np.exp(0.5 * cfg.episode_spread**2))  # a lognormal's mean
        slowness = 1.0 + (cfg.slow_factor - 1.0) * cfg.slow_share
        return cfg.base_step_s * self.factor * of_episodes * slowness

    @property
    def mean_reset_s(self) -> float:
        if self._resets:
            return float(np.mean(self._resets))
        return 0.5 * (self._cfg.reset_low_s + self._cfg.reset_high_s)

    def next_step_s(self) -> float:
        if self._steps:
            self._step += 1
            return self._steps[self._step % len(self._steps)]
        slowness = self._cfg.slow_factor if self._step_rng.random() < self._cfg.slow_share else 1.0
        return self._cfg.base_step_s * self.factor * self._episode_factor * slowness

    def next_reset_s(self) -> float:
        """Time of the reset that ends an episode; the following steps belong to the next."""
        self._begin_episode()
        if self._resets:
            self._reset += 1
            return self._resets[self._reset % len(self._resets)]
        return float(self._reset_rng.uniform(self._cfg.reset_low_s, self._cfg.reset_high_s))

    def _begin_episode(self) -> None:
        normal = self._episode_rng.standard_normal()
        self._episode_factor = float(np.exp(self._cfg.episode_spread * normal))


class Sleeper:
    """Sleeps until deadlines; if one sleep is too long, the next is shorter by as much."""

    def __init__(self) -> None:
        self._late = 0.0

    def sleep(self, duration: float) -> None:
        deadline = time.perf_counter() + duration - self._late
        time.sleep(max(0.0, deadline - time.perf_counter()))
        self._late = min(max(0.0, time.perf_counter() - deadline), MAX_CARRY_S)


class StragglerEnv(gymnasium.Env):
    """Environment `index` of the workload. The first reset is free; nothing is ever terminated.

    Args:
        index: which environment; its speed and all its times follow from it.
        settings: the fields of StragglerCfg.

    Raises UserError for a setting that does not exist or is out of range.
    """

    metadata = {"render_modes": []}

    def __init__(self, index: int = 0, **settings: Any) -> None:
        known = {field.name for field in fields(StragglerCfg)} | {"render_mode"}
        if unknown := set(settings) - known:
            raise UserError(f"the straggler has no setting {', '.join(sorted(unknown))}")
        settings.pop("render_mode", None)  # gymnasium.make gives it to every environment
        try:
            self.cfg = StragglerCfg(**settings)
        except ValueError as error:
            raise UserError(str(error)) from error
        self.times = StepTimes(self.cfg, index)
        self.observation_space = spaces.Box(-1.0, 1.0, (OBSERVATION_SIZE,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (ACTION_SIZE,), np.float32)
        self.sleep = Sleeper().sleep  # waits for so many seconds
        self._observation = np.zeros(OBSERVATION_SIZE, np.float32)
        self._num_steps = 0
        self._episode_steps = self.times.first_episode_steps
        self._is_new = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Sleeps, but for the first time. The times do not depend on `seed`."""
        super().reset(seed=seed)
        if not self._is_new:
            self.sleep(self.times.next_reset_s())
            self._episode_steps = self.cfg.episode_steps
        self._is_new = False
        self._num_steps = 0
        return self._observation, {}

    def step(self, action: Any):
        """Sleeps. The reward is 0 and the episode is truncated after its number of steps."""
        self.sleep(self.times.next_step_s())
        self._num_steps += 1
        return self._observation, 0.0, False, self._num_steps >= self._episode_steps, {}


@dataclass(frozen=True)
class StragglerFactory:
    """Makes environment `index`; can be pickled for a worker process."""

    cfg: StragglerCfg

    def __call__(self, index: int) -> StragglerEnv:
        return StragglerEnv(index, **vars(self.cfg))


def _rng(cfg: StragglerCfg, index: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([cfg.seed, index, purpose])


MAX_RECORDING = 2**24  # bytes


def _read_recording(path: str | None) -> tuple[list[float], list[float]]:
    """Times of steps and resets (s); empty without a recording."""
    if path is None:
        return [], []
    try:
        recording = strict_json(read_whole_file(user_path(path), MAX_RECORDING).decode())
        steps, resets = ([float(x) for x in recording[key]] for key in ("step_s", "reset_s"))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"cannot read the recording {path}: it must be JSON like "
            f'{{"step_s": [0.02], "reset_s": [0.3]}} ({type(error).__name__}: {error})'
        ) from error
    if not steps or not resets or not all(0.0 <= x < 3600.0 for x in steps + resets):
        raise UserError(f"the recording {path} needs times of steps and resets in seconds from 0")
    return steps, resets
