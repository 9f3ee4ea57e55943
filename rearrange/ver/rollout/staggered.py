"""Staggered resets: the episodes of N environments in step are spread over the task's horizon.

    groups     0    1    2  ...                                    N_B = ceil(H / K), S = K
    at t = 0   0    S   2S  ... (N_B - 1) S  steps into the horizon
    gate       group g is reset at every t with (t + g S) mod H = 0

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning" (section 3.3). When all environments start together, each batch of K steps shows one slice
of the episodes, and the slices come round every H / K updates. Here each batch shows all of them.

An environment whose episode ends early waits for the next gate of any group, and belongs to that
group from then on: resets stay batched. Fewer groups make fewer resets; `how="cut"` spends no steps
before training; `has_gates=False` lets nobody wait, where the reset of one is cheap.

Legend: H horizon, K rollout steps, N environments, N_B groups, S steps between groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import iterate

from rearrange.errors import UserError

HOW = ("advance", "cut")


@dataclass(kw_only=True)
class StaggerCfg:
    horizon: int
    """H, steps after which an environment is reset."""
    rollout_steps: int
    """K, steps of each environment that an update learns from."""
    num_groups: int = 0
    """N_B; 0: ceil(H / K)."""
    how: str = "advance"
    """`advance` takes random actions until the groups are apart; `cut` begins all at once and cuts
    first episodes short instead."""
    has_gates: bool = True
    """What ends early waits for the next gate; false: it is reset at once."""

    def __post_init__(self) -> None:
        for name in ("horizon", "rollout_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.num_groups <= self.horizon:
            raise ValueError(f"num_groups must lie in [0, {self.horizon}], got {self.num_groups}")
        if self.how not in HOW:
            raise ValueError(f"how must be one of {', '.join(HOW)}; got '{self.how}'")


class Timetable:
    """Which environment is how far into the horizon at t = 0, and when there are gates.

    Attributes:
        offsets: steps into the horizon at t = 0, [N]; multiples of S below H.
        lead: steps before t = 0 at which the first group has to begin.
    """

    def __init__(self, cfg: StaggerCfg, num_envs: int) -> None:
        self._horizon = cfg.horizon
        count = cfg.num_groups or -(-cfg.horizon // cfg.rollout_steps)
        step = cfg.horizon / count if cfg.num_groups else cfg.rollout_steps
        groups = np.arange(num_envs) * count // num_envs
        self.offsets = (groups * step).astype(np.int64)
        self.lead = int(self.offsets.max())
        self._times = np.unique(-self.offsets % cfg.horizon)

    def begins(self, t: int) -> np.ndarray:
        """Whose group begins its horizon at t, [N] bool."""
        return (t + self.offsets) % self._horizon == 0

    def is_gate(self, t: int) -> bool:
        """Whether any group does."""
        return bool((self._times == t % self._horizon).any())


class StaggeredResets(VectorWrapper):
    """A vector environment whose environments are reset by a timetable.

    Autoreset is Gymnasium's `SAME_STEP`, but for those that wait: they show their last observation
    at no reward. `infos["is_waiting"]`, [N] bool, says whose step did not take place, and
    `infos["is_whole"]` whose episode, where it has just ended, was neither cut short nor begun by
    random actions. `infos["final_obs"]` and `infos["final_info"]` are Gymnasium's.

    Args:
        env: its autoreset is disabled, and an environment that has ended stands still until it is
            reset by `options["reset_mask"]`: `rearrange`'s own do.

    Raises UserError for one whose autoreset is not disabled.
    """

    def __init__(self, env: VectorEnv, cfg: StaggerCfg) -> None:
        super().__init__(env)
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.DISABLED:
            raise UserError(f"staggered resets need autoreset_mode='Disabled', got {mode}")
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.cfg, self.timetable = cfg, Timetable(cfg, env.num_envs)
        count = env.num_envs
        self.time = 0
        self.life = np.zeros(count, np.int64)  # steps since its reset
        self._limit = np.full(count, cfg.horizon)  # of its life
        self.is_over, self._is_whole = np.zeros(count, bool), np.ones(count, bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins training's time, t = 0; with `advance` after `timetable.lead` random steps."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.life[:], self.is_over[:], self._is_whole[:] = 0, False, True
        offsets = self.timetable.offsets
        self._limit[:] = self.cfg.horizon
        if self.cfg.how == "cut":
            self.time = 0
            self._limit -= offsets
            self._is_whole = offsets == 0
            return observations, infos
        self.time = -self.timetable.lead
        self.env.action_space.seed(seed)
        begun = self.timetable.begins(self.time)
        while self.time < 0:
            observations, *_, infos = self._step(self.env.action_space.sample(), begun)
            begun |= self.timetable.begins(self.time)
        self._is_whole = (self.life == 0) & ~self.is_over
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """As in Gymnasium; see the class for `infos`."""
        return self._step(actions, np.ones(self.num_envs, bool))

    def _step(self, actions: Any, begun: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """A step of all, after which those are reset that the timetable says.

        Those that have not begun are before their place in the advance: they are reset when it is
        their turn.
        """
        was_over = self.is_over.copy()
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        terminated, truncated = terminated & ~was_over, truncated & ~was_over
        self.time += 1
        self.life += ~was_over
        truncated = truncated | (~was_over & ~terminated & begun & (self.life >= self._limit))
        self.is_over = was_over | terminated | truncated
        infos = dict(infos)
        infos["is_waiting"] = was_over
        infos["is_whole"] = (terminated | truncated) & self._is_whole
        due = self._due(begun)
        ended = terminated | truncated
        if ended.any():
            ends, finals = dict(infos), self._finals(observations, ended)
            infos |= {"final_obs": finals, "_final_obs": ended}
            infos |= {"final_info": ends, "_final_info": ended}
        if due.any():
            observations, _ = self.env.reset(options={"reset_mask": due})
            self.life[due], self.is_over[due], self._is_whole[due] = 0, False, True
            self._limit[due] = self.cfg.horizon
        return observations, rewards, terminated, truncated, infos

    def _due(self, begun: np.ndarray) -> np.ndarray:
        """Who is reset now, [N] bool."""
        if not self.cfg.has_gates:
            return self.is_over | (~begun & self.timetable.begins(self.time))
        starts = ~begun & self.timetable.begins(self.time)
        return starts | (self.is_over if self.timetable.is_gate(self.time) else starts)

    def _finals(self, observations: Any, ended: np.ndarray) -> np.ndarray:
        finals = np.full(self.num_envs, None, dtype=object)
        for i, one in enumerate(iterate(self.env.observation_space, observations)):
            if ended[i]:
                is_named = isinstance(one, dict)
                finals[i] = {k: np.copy(v) for k, v in one.items()} if is_named else np.copy(one)
        return finals
