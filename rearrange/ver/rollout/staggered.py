"""Staggered resets: spreads the episodes of N lockstep environments over the task's horizon.

    groups     0    1    2  ...                                    N_B = ceil(H / K), S = K
    at t = 0   0    S   2S  ... (N_B - 1) S  steps into the horizon
    gate       group g is reset at every t with (t + g S) mod H = 0

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning" (section 3.3). When all environments start together, each batch of K steps shows one slice
of the episodes, and the slices come round every H / K updates. Here each batch shows all of them.

An environment whose episode ends early waits for the next gate of any group, and belongs to that
group from then on: resets stay batched. Fewer groups mean fewer resets; `how="cut"` spends no steps
before training; `has_gates=False` resets each at once, where single resets are cheap.

Legend: H horizon, K rollout steps, N environments, N_B groups, S steps between groups.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import iterate

from rearrange.errors import UserError

HOW = ("advance", "cut")
_NEVER = np.iinfo(np.int64).max


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
    """Episodes that end early wait for the next gate; false: they are reset at once."""
    is_limit: bool = True
    """Every episode ends after H steps; false: only the first ones are cut short."""

    def __post_init__(self) -> None:
        for name in ("horizon", "rollout_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.num_groups <= self.horizon:
            raise ValueError(f"num_groups must lie in [0, {self.horizon}], got {self.num_groups}")
        if self.how not in HOW:
            raise ValueError(f"how must be one of {', '.join(HOW)}; got '{self.how}'")


class Timetable:
    """Each environment's offset into the horizon at t = 0, and the times of the gates.

    Args:
        offsets: replace those of the groups, [N], each below H.

    Attributes:
        offsets: steps into the horizon at t = 0, [N]; multiples of S below H.
        lead: steps before t = 0 at which the first group begins.
    """

    def __init__(self, cfg: StaggerCfg, num_envs: int, offsets: np.ndarray | None = None) -> None:
        self._horizon = cfg.horizon
        if offsets is None:
            count = cfg.num_groups or -(-cfg.horizon // cfg.rollout_steps)
            step = cfg.horizon / count if cfg.num_groups else cfg.rollout_steps
            groups = np.arange(num_envs) * count // num_envs
            offsets = groups * step
        self.offsets = offsets.astype(np.int64)
        self.lead = int(self.offsets.max())
        self._times = np.unique(-self.offsets % cfg.horizon)

    def part(self, envs: range) -> Timetable:
        """That of some of the environments: the same gates and lead."""
        part = copy(self)
        part.offsets = self.offsets[envs.start : envs.stop]
        return part

    def begins(self, t: int) -> np.ndarray:
        """Environments whose group begins its horizon at t, [N] bool."""
        return (t + self.offsets) % self._horizon == 0

    def is_gate(self, t: int) -> bool:
        """Whether any group begins its horizon at t."""
        return bool((self._times == t % self._horizon).any())


class EpisodeFlags(NamedTuple):
    """What a step meant for each environment, [N] bool each."""

    terminated: np.ndarray  # now: not of those that wait
    truncated: np.ndarray
    is_waiting: np.ndarray  # its step did not take place
    is_whole: np.ndarray  # its episode has just ended, and was neither cut short nor advanced


class EpisodeTracker:
    """Tracks the episodes of N environments, and which are to be reset.

        restart, then after each step    count --> due --> (reset them) --> began

    Attributes:
        time: t; negative during an advance, whose steps are random.
        life: steps of each since its reset, [N].
        is_over: ended and not yet reset, [N] bool.
    """

    def __init__(self, cfg: StaggerCfg, timetable: Timetable) -> None:
        self.cfg, self.timetable, num_envs = cfg, timetable, len(timetable.offsets)
        self._most = cfg.horizon if cfg.is_limit else _NEVER
        self.time = 0
        self.episode_steps, self.limit = np.zeros(num_envs, np.int64), np.full(num_envs, self._most)
        self.is_over, self.is_whole = np.zeros(num_envs, bool), np.ones(num_envs, bool)
        self._begun = np.ones(num_envs, bool)  # the others are before their place in the advance

    def restart(self) -> None:
        """Call after all were reset; with `advance`, `timetable.lead` steps before t = 0."""
        offsets = self.timetable.offsets
        self.time = 0 if self.cfg.how == "cut" else -self.timetable.lead
        self.episode_steps[:], self.limit[:] = 0, self._most
        self.is_over[:], self.is_whole[:] = False, True
        self._begun[:] = True
        if self.cfg.how == "cut":
            is_cut = offsets > 0
            self.is_whole[:] = ~is_cut
            self.limit[is_cut] = self.cfg.horizon - offsets[is_cut]
        elif self.time < 0:
            self._begun[:] = self.timetable.begins(self.time)

    def count(self, terminated: np.ndarray, truncated: np.ndarray) -> EpisodeFlags:
        """Counts one step of all environments, [N] bool each."""
        is_waiting = self.is_over.copy()
        terminated, truncated = terminated & ~is_waiting, truncated & ~is_waiting
        self.time += 1
        self.episode_steps += ~is_waiting
        is_late = ~is_waiting & ~terminated & self._begun & (self.episode_steps >= self.limit)
        truncated = truncated | is_late
        ended = terminated | truncated
        self.is_over = is_waiting | ended
        return EpisodeFlags(terminated, truncated, is_waiting, ended & self.is_whole)

    def due(self) -> np.ndarray:
        """Environments to reset now, [N] bool."""
        starts = ~self._begun & self.timetable.begins(self.time)
        self._begun |= starts
        if not self.cfg.has_gates or self.timetable.is_gate(self.time):
            return starts | self.is_over
        return starts

    def began(self, due: np.ndarray) -> None:
        """Call after the due ones were reset, even if there were none."""
        self.episode_steps[due], self.is_over[due], self.is_whole[due] = 0, False, True
        self.limit[due] = self._most
        if self.time == 0:  # the end of the advance
            self.is_whole[:] = (self.episode_steps == 0) & ~self.is_over


class StaggeredResets(VectorWrapper):
    """A vector environment whose environments are reset by a timetable.

    Autoreset is Gymnasium's `SAME_STEP`, except that waiting environments repeat their last
    observation with reward 0. `infos["is_waiting"]`, [N] bool, marks those whose step did not take
    place, and `infos["is_whole"]` those whose episode has just ended and was neither cut short nor
    begun by random actions. `infos["final_obs"]` and `infos["final_info"]` are Gymnasium's.

    Args:
        env: with autoreset disabled; an ended environment stays as it is until it is reset by
            `options["reset_mask"]`, as those of `rearrange` do.

    Raises UserError if autoreset is not disabled.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], cfg: StaggerCfg) -> None:
        super().__init__(env)
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.DISABLED:
            raise UserError(f"staggered resets need autoreset_mode='Disabled', got {mode}")
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.tracker = EpisodeTracker(cfg, Timetable(cfg, env.num_envs))

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Starts the clock at t = 0; with `advance`, after `timetable.lead` random steps.

        Args:
            seed: as the environment takes it; random steps follow from the first that is given.

        Raises UserError for a `reset_mask`.
        """
        if options and "reset_mask" in options:
            raise UserError("reset_mask must be left out: the timetable resets single environments")
        observations, infos = self.env.reset(seed=seed, options=options)  # pyrefly: ignore[bad-argument-type]
        self.tracker.restart()
        actions = self.env.action_space
        given = [] if seed is None else list(np.atleast_1d(np.array(seed, object)))
        actions.seed(next((int(one) for one in given if one is not None), None))
        while self.tracker.time < 0:
            observations, *_, infos = self.step(actions.sample())
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """As in Gymnasium; see the class for `infos`."""
        observations, rewards, *ends, infos = self.env.step(actions)
        terminated, truncated, is_waiting, is_whole = self.tracker.count(*ends)
        own = {"is_waiting": is_waiting, "is_whole": is_whole}
        ended = terminated | truncated
        if ended.any():
            finals, last = self._finals(observations, ended), _masked(infos, ended) | own
            own |= {"final_obs": finals, "_final_obs": ended}
            own |= {"final_info": last, "_final_info": ended}
        due = self.tracker.due()
        if due.any():
            observations, begun = self.env.reset(options={"reset_mask": due})
            infos = _replaced(infos, begun, due)
        self.tracker.began(due)
        return observations, rewards, terminated, truncated, infos | own

    def _finals(self, observations: Any, ended: np.ndarray) -> np.ndarray:
        finals = np.full(self.num_envs, None, dtype=object)
        for i, one in enumerate(iterate(self.env.observation_space, observations)):
            if ended[i]:
                is_named = isinstance(one, dict)
                finals[i] = {k: np.copy(v) for k, v in one.items()} if is_named else np.copy(one)
        return finals


def _masked(infos: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Gymnasium's infos, whose masks `_NAME` [N] say True for `rows` [N] at most."""
    masked: dict[str, Any] = {}
    for name, value in infos.items():
        if isinstance(value, dict):
            masked[name] = _masked(value, rows)
        else:
            is_mask = name.startswith("_") and isinstance(value, np.ndarray)
            masked[name] = value & rows if is_mask else value
    return masked


def _replaced(infos: dict[str, Any], begun: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Infos of a step, for `rows` [N] those of the reset after it."""
    merged = _masked(infos, ~rows)
    for name, new in begun.items():
        old = merged.get(name)
        if isinstance(new, dict):
            known = old if isinstance(old, dict) else {}
            merged[name] = _replaced(known, new, rows)
        elif isinstance(new, np.ndarray):
            old = np.zeros_like(new) if old is None else old
            kept = np.array(old, np.result_type(old, new))
            kept[rows] = new[rows]
            merged[name] = kept
    return merged
