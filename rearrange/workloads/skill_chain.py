"""A chain of blocks, each with one right action: the toy problem of the staggered-resets paper.

    block 0 --L steps--> block 1 --L steps--> ... --> block B - 1        H = B L steps in all
             gate: k_mastery right actions in the block, or chance p_prog

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning" (sections 4.1, B.2). The agent sees its block. A right action is worth 0.5, a wrong one
-0.5. An episode terminates after H steps; it is a success if the agent is then in the last block.

Choices that the paper leaves open: from the L-th step in a block on, the gate is tried after every
step; counts start again in each block; an episode that starts in a later block also lasts H steps.
With p_prog = 1 every episode is a success, so that only `accuracy`, the share of right actions,
distinguishes policies there.

Legend: N chains, B blocks.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv

from rearrange.checked_arguments import checked_reset_options, reset_mask, seed_each, whole
from rearrange.errors import UserError
from rearrange.system.checked_json import quoted

ENV_ID = "rearrange/SkillChain-v0"
REWARD = 0.5
_DRAWS = 256  # random numbers of a chain drawn at a time
_INFOS = ("success", "accuracy", "block")


class SkillChainVectorEnv(VectorEnv):
    """N chains in numpy. Chain i of `reset(seed=s)` does what a single one of seed s + i does.

    Args:
        horizon: H, steps of an episode.
        block_steps: L, steps that a block takes at least.
        num_actions: to choose from in each block.
        mastery: k_mastery, right actions in a block that open its gate.
        progression: p_prog, the probability that a gate opens anyway.
        reset_spread: lambda_R, the mean of the Poisson distribution of first blocks.
        target_seed: of the right actions, which all chains share.
        autoreset_mode: Gymnasium's. With "Disabled" a finished chain does not move and
            earns no reward until `reset(options={"reset_mask": mask})`.

    Raises UserError for a value out of range.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        horizon: int = 200,
        block_steps: int = 5,
        num_actions: int = 20,
        mastery: int = 3,
        progression: float = 0.5,
        reset_spread: float = 0.0,
        target_seed: int = 0,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        _check(num_envs, horizon, block_steps, num_actions, mastery)
        _check_number("progression", progression, 1.0)
        _check_number("reset_spread", reset_spread, 100.0)
        self.num_envs, self.horizon, self.block_steps = num_envs, horizon, block_steps
        self.num_blocks, self.num_actions = horizon // block_steps, num_actions
        self._mastery, self._progression = mastery, progression
        self._start_chances = _poisson_chances(reset_spread, self.num_blocks)
        rng = np.random.default_rng(whole("target_seed", target_seed, 0))
        self.targets = rng.integers(num_actions, size=self.num_blocks)
        """The right action of each block, [B]."""
        if autoreset_mode not in (modes := [*AutoresetMode, *(one.value for one in AutoresetMode)]):
            known = ", ".join(mode for mode in modes if isinstance(mode, str))
            raise UserError(f"autoreset_mode must be one of {known}; got {quoted(autoreset_mode)}")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = Discrete(self.num_blocks)
        self.single_action_space = Discrete(num_actions)
        self.observation_space = MultiDiscrete(np.full(num_envs, self.num_blocks))
        self.action_space = MultiDiscrete(np.full(num_envs, num_actions))
        self.block, self.elapsed, self._in_block, self._right_in_block, self._right = (
            np.zeros(num_envs, np.int64) for _ in range(5)
        )
        self.is_over = np.ones(num_envs, bool)  # no episode has begun
        self._streams: list[np.random.Generator] = []
        self._numbers = np.zeros((num_envs, _DRAWS))
        self._next = np.full(num_envs, _DRAWS)
        self._every = np.arange(num_envs)

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode in every chain, or in those of options["reset_mask"], [N] bool."""
        mask = reset_mask(checked_reset_options(options, ("reset_mask",)), self.num_envs)
        self._seed(seed, mask)
        self._begin(mask)
        return self.block.copy(), self._infos(mask)

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of all chains: blocks [N] int64, rewards [N], ends [N] bool, infos.

        Raises ValueError for actions that are no choices, RuntimeError before the first reset.
        """
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise ValueError(f"actions must be {self.num_envs} whole numbers, got {actions.shape}")
        if ((actions < 0) | (actions >= self.num_actions)).any():
            raise ValueError(f"actions must lie in [0, {self.num_actions}), got {actions}")
        if not self._streams:
            raise RuntimeError("reset must be called before step")
        was_over = self.is_over.copy()
        rewards = self._advance(actions, ~was_over)
        terminated = self.is_over.copy()
        infos = self._infos(np.ones(self.num_envs, bool))
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            self._begin(was_over)
            terminated &= ~was_over
            infos = self._infos(np.ones(self.num_envs, bool))
        elif self.autoreset_mode == AutoresetMode.SAME_STEP and terminated.any():
            finals = np.full(self.num_envs, None, dtype=object)
            finals[terminated] = self.block[terminated]
            ends = self._infos(terminated)
            self._begin(terminated)
            infos = self._infos(np.ones(self.num_envs, bool))
            infos |= {"final_obs": finals, "_final_obs": terminated.copy()}
            infos |= {"final_info": ends, "_final_info": terminated.copy()}
        return self.block.copy(), rewards, terminated, np.zeros(self.num_envs, bool), infos

    # --- private -------------------------------------------------------------------------------

    def _advance(self, actions: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """The step itself, of the chains that `moves`; rewards [N]."""
        is_right = moves & (actions == self.targets[self.block])
        rewards = np.where(moves, np.where(is_right, REWARD, -REWARD), 0.0)
        chance = np.ones(self.num_envs)
        chance[moves] = self._draw(moves)
        for count in (self._right_in_block, self._right):
            count += is_right
        for count in (self._in_block, self.elapsed):
            count += moves
        is_through = moves & (self._in_block >= self.block_steps)
        is_through &= self.block < self.num_blocks - 1
        is_through &= (self._right_in_block >= self._mastery) | (chance < self._progression)
        self.block += is_through
        self._in_block[is_through] = self._right_in_block[is_through] = 0
        self.is_over = self.elapsed >= self.horizon
        return rewards

    def _begin(self, mask: np.ndarray) -> None:
        """A new episode in the chains of `mask`."""
        if not mask.any():
            return
        for count in (self.elapsed, self._in_block, self._right_in_block, self._right):
            count[mask] = 0
        self.block[mask] = np.searchsorted(self._start_chances, self._draw(mask), side="right")
        self.is_over = self.is_over & ~mask

    def _infos(self, mask: np.ndarray) -> dict[str, Any]:
        steps = np.maximum(self.elapsed, 1)
        success = self.is_over & (self.block == self.num_blocks - 1)
        found: dict[str, Any] = {}
        for name, values in zip(_INFOS, (success, self._right / steps, self.block), strict=True):
            found[name] = np.where(mask, values, np.zeros((), values.dtype))
            found[f"_{name}"] = mask.copy()
        return found

    def _seed(self, seed: Any, mask: np.ndarray) -> None:
        """Random streams of the chains of `mask`; without a seed existing ones continue."""
        seeds = seed_each(seed, self.num_envs)
        if not self._streams:
            self._streams = [np.random.default_rng(one) for one in seeds]
        for i, one in enumerate(seeds):
            if one is not None and mask[i]:
                self._streams[i], self._next[i] = np.random.default_rng(one), _DRAWS

    def _draw(self, mask: np.ndarray) -> np.ndarray:
        """The next number in [0, 1) of each chain of `mask`."""
        rows = self._every[mask]
        for row in rows[self._next[rows] == _DRAWS]:
            self._numbers[row], self._next[row] = self._streams[row].random(_DRAWS), 0
        drawn = self._numbers[rows, self._next[rows]]
        self._next[rows] += 1
        return drawn


class SkillChainEnv(gymnasium.Env):
    """One chain, with the settings of `SkillChainVectorEnv`."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, **settings: Any) -> None:
        self.chain = SkillChainVectorEnv(1, **settings, autoreset_mode=AutoresetMode.DISABLED)
        self.observation_space = self.chain.single_observation_space
        self.action_space = self.chain.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Begins an episode: the block, and `success`, `accuracy` and `block`."""
        super().reset(seed=seed)
        blocks, infos = self.chain.reset(seed=seed, options=options)
        return blocks[0], _of_one(infos)

    def step(self, action: int) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """One step, as that of the vector environment."""
        blocks, rewards, terminated, _, infos = self.chain.step(np.array([action]))
        return blocks[0], float(rewards[0]), bool(terminated[0]), False, _of_one(infos)


def register() -> None:
    """Makes the id known to Gymnasium. Harmless when called again."""
    if ENV_ID not in gymnasium.registry:
        here = "rearrange.workloads.skill_chain"
        gymnasium.register(
            ENV_ID, f"{here}:SkillChainEnv", vector_entry_point=f"{here}:SkillChainVectorEnv"
        )


def _check_number(name: str, value: Any, high: float) -> None:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= high:
        raise UserError(f"{name} must lie in [0, {high:g}], got {quoted(value)}")


def _of_one(infos: dict[str, Any]) -> dict[str, Any]:
    return {name: infos[name][0].item() for name in _INFOS}


def _poisson_chances(mean: float, num_blocks: int) -> np.ndarray:
    """P(b_0 <= b) of the first block, [B - 1]: what lies beyond the last block is the last one."""
    blocks = np.arange(1, num_blocks)
    chances = np.exp(-mean) * np.cumprod(np.concatenate([[1.0], mean / blocks]))
    return np.cumsum(chances)[: num_blocks - 1]


def _check(num_envs: int, horizon: int, block_steps: int, num_actions: int, mastery: int) -> None:
    given = {
        "num_envs": num_envs, "horizon": horizon, "block_steps": block_steps,
        "num_actions": num_actions, "mastery": mastery,
    }  # fmt: skip
    for name, value in given.items():
        whole(name, value, 1)
    if horizon % block_steps:
        raise UserError(f"horizon must be a multiple of block_steps ({block_steps}), got {horizon}")
