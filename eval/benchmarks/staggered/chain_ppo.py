"""PPO on the chain of blocks, and the metrics after each update.

    table of the policy [B, A], [B] --> K steps of N chains --> advantages --> E x M minibatches
          ^------------------------------------------------------------------------'

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning", section B.2, table 2, and E.0.1 for what is measured. Loss and advantages are the
trainer's (`ppo_loss`, `compute_advantages`), the resets `StaggeredResets`; the loop is this one,
because an agent that sees only its block is a table: the network is asked once for each block, not
for each step, and several trainings learn in step, their networks stacked, each with gradients and
an optimiser state of its own. Both change nothing but the time that it takes.

What the paper leaves open, and what holds here: actor and critic have layers of their own; weights
are orthogonal; advantages are normalised in each minibatch, Adam's epsilon is 1e-5 and the learning
rate constant, as in the paper's other experiments (table 3); each seed has right actions of its
own.

Legend: N chains, K steps of a rollout, S = N K, B blocks, U blocks of a rollout, A actions,
R trainings in step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor
from torch.func import vmap

from rearrange.eval.benchmarks.staggered.networks import Networks, Table
from rearrange.ver.rollout.staggered import StaggerCfg, StaggeredResets
from rearrange.ver.rollout.types import Evaluation, Minibatch
from rearrange.ver.update.ppo import PPOCfg, ppo_loss
from rearrange.ver.update.returns import ReturnsCfg, compute_advantages
from rearrange.workloads.skill_chain import SkillChainVectorEnv

ROLLOUT_STEPS, NUM_ACTIONS = 5, 20  # K, A
ENTROPY_COEF = 0.01
PPO = PPOCfg(
    learning_rate=3e-4, num_epochs=4, num_minibatches=4, clip_coef=0.2, value_coef=0.5,
    max_grad_norm=0.5, normalize_advantages=True,
)  # fmt: skip
RETURNS = ReturnsCfg(gamma=0.99, gae_lambda=0.95)
EVALUATION = 2**20  # added to the seeds of chains on which success is measured


@dataclass(frozen=True, kw_only=True)
class ChainRun:
    """One training."""

    horizon: int
    """H; a multiple of K."""
    progression: float
    """p_prog, the chance with which a gate opens without mastery."""
    is_staggered: bool
    seed: int
    num_envs: int = 512
    num_updates: int = 150

    @property
    def name(self) -> str:
        way = "staggered" if self.is_staggered else "naive"
        return f"{way}-H{self.horizon}-p{self.progression:g}-seed{self.seed}"


@dataclass
class Learned:
    """What became of a training of U updates."""

    value_error: list[float]
    """Before each update, mean over the rollout of (value - return)^2, [U]."""
    policy_kl: list[float]
    """Of each update, 1/2 mean of (change of an action's log-probability)^2, [U]."""
    accuracy: list[list[float]]
    """After each update, the chance of the right action in each block, [U][B]."""
    success: float
    """At the end, of as many whole episodes as there are chains, with drawn actions."""


class Rollout(NamedTuple):
    """Steps, those of one chain one after the other, [S] each."""

    blocks: np.ndarray
    actions: np.ndarray
    returns: np.ndarray
    advantages: np.ndarray


def make_chains(run: ChainRun) -> tuple[VectorEnv, np.ndarray]:
    """N chains that reset themselves in the step in which they end; the right actions, [B]."""
    mode = AutoresetMode.DISABLED if run.is_staggered else AutoresetMode.SAME_STEP
    chains = _chains(run, mode)
    if not run.is_staggered:
        return chains, chains.targets
    cfg = StaggerCfg(horizon=run.horizon, rollout_steps=ROLLOUT_STEPS)
    return StaggeredResets(chains, cfg), chains.targets


def train(runs: list[ChainRun], after_update: Callable[[], object] = lambda: None) -> list[Learned]:
    """Trains in step and measures. All must have the same horizon and number of updates.

    Draws from torch's global generator. What becomes of a training depends on those beside it only
    as far as products of stacked matrices are rounded in another way.
    """
    all_chains, targets = zip(*map(make_chains, runs), strict=True)
    rngs = [np.random.default_rng(run.seed) for run in runs]
    places = np.arange(len(targets[0]))
    networks = Networks([run.seed for run in runs], len(places), NUM_ACTIONS, PPO)
    stand = [
        chains.reset(seed=run.seed * run.num_envs)[0]
        for run, chains in zip(runs, all_chains, strict=True)
    ]
    learned, tables = [Learned([], [], [], 0.0) for _ in runs], networks.tables()
    for _ in range(runs[0].num_updates):
        rollouts = []
        for i, chains in enumerate(all_chains):
            rollout, stand[i] = collect(chains, stand[i], tables[i], rngs[i])
            rollouts.append(rollout)
            error = tables[i].values[rollout.blocks] - rollout.returns
            learned[i].value_error.append(float(np.square(error).mean()))
        update(networks, rollouts, tables, rngs)
        old, tables = tables, networks.tables()
        for i, rollout in enumerate(rollouts):
            change = tables[i].log_probs - old[i].log_probs
            kl = 0.5 * np.square(change[rollout.blocks, rollout.actions]).mean()
            learned[i].policy_kl.append(float(kl))
            right = np.exp(tables[i].log_probs)[places, targets[i]]
            learned[i].accuracy.append(right.round(4).tolist())
        after_update()
    for run, one, table, rng in zip(runs, learned, tables, rngs, strict=True):
        one.success = success(run, table, rng)
    return learned


def collect(
    chains: VectorEnv, blocks: np.ndarray, table: Table, rng: np.random.Generator
) -> tuple[Rollout, np.ndarray]:
    """K steps of N chains that stand in `blocks`, [N]; and where they stand then."""
    shape = (ROLLOUT_STEPS, len(blocks))
    seen, after, actions = (np.zeros(shape, np.int64) for _ in range(3))
    rewards, terminated = np.zeros(shape), np.zeros(shape, bool)
    for t in range(ROLLOUT_STEPS):
        seen[t], actions[t] = blocks, table.draw(blocks, rng)
        blocks, rewards[t], terminated[t], _, _ = chains.step(actions[t])
        after[t] = blocks  # of those that ended the next episode's: never asked for its value
    ended = terminated.copy()
    ended[-1] = True
    values, next_values = table.values[seen], table.values[after]

    def of_chains(steps: np.ndarray) -> Tensor:
        return torch.from_numpy(steps.T.ravel())

    advantages = compute_advantages(
        of_chains(rewards), of_chains(values), of_chains(next_values), of_chains(terminated),
        of_chains(ended), RETURNS,
    ).double().numpy()  # fmt: skip
    returns = values.T.ravel() + advantages
    return Rollout(seen.T.ravel(), actions.T.ravel(), returns, advantages), blocks


def update(
    networks: Networks,
    rollouts: list[Rollout],
    old: list[Table],  # by which they were collected
    rngs: list[np.random.Generator],
) -> None:
    """PPO's epochs, over each network's rollout."""
    blocks, *columns = _stacked(rollouts, old)

    def loss(log_probs: Tensor, values: Tensor, *columns: Tensor) -> Tensor:
        entropies = -(log_probs.exp() * log_probs).sum(dim=-1)
        minibatch, places = _minibatch(*columns)
        of_actions = log_probs.index_select(0, places).gather(1, minibatch.action).squeeze(-1)
        entropy, value = entropies.index_select(0, places), values.index_select(0, places)
        return ppo_loss(Evaluation(of_actions, entropy, value), minibatch, ENTROPY_COEF, PPO)[0]

    size = len(rollouts[0].blocks)
    for _ in range(PPO.num_epochs):
        orders = torch.from_numpy(np.stack([rng.permutation(size) for rng in rngs]))
        for rows in orders.tensor_split(PPO.num_minibatches, dim=1):
            parts = [column.gather(1, rows) for column in columns]
            networks.learn(vmap(loss)(*networks(blocks), *parts))


def success(run: ChainRun, table: Table, rng: np.random.Generator) -> float:
    """The share of N whole episodes that end in the last block."""
    chains = _chains(run, AutoresetMode.DISABLED)
    blocks, infos = chains.reset(seed=EVALUATION + run.seed * run.num_envs)
    for _ in range(run.horizon):
        blocks, _, _, _, infos = chains.step(table.draw(blocks, rng))
    return float(infos["success"].mean())


def _chains(run: ChainRun, mode: AutoresetMode) -> SkillChainVectorEnv:
    return SkillChainVectorEnv(
        run.num_envs, horizon=run.horizon, block_steps=5, num_actions=NUM_ACTIONS, mastery=3,
        progression=run.progression, target_seed=run.seed, autoreset_mode=mode,
    )  # fmt: skip


def _stacked(rollouts: list[Rollout], old: list[Table]) -> list[Tensor]:
    """Blocks to ask about, [R, U], and what `_minibatch` takes, [R, S] each."""
    unique = [np.unique(rollout.blocks, return_inverse=True) for rollout in rollouts]
    most = max(len(known) for known, _ in unique)
    # Where a rollout has fewer blocks the last one stands again, which no step refers to.
    blocks = [np.pad(known, (0, most - len(known)), mode="edge") for known, _ in unique]
    columns = [
        (
            place,
            rollout.actions,
            table.log_probs[rollout.blocks, rollout.actions].astype(np.float32),
            table.values[rollout.blocks].astype(np.float32),
            rollout.advantages.astype(np.float32),
            rollout.returns.astype(np.float32),
        )
        for rollout, table, (_, place) in zip(rollouts, old, unique, strict=True)
    ]
    arrays = [blocks, *zip(*columns, strict=True)]
    return [torch.from_numpy(np.stack(array)) for array in arrays]


def _minibatch(
    places: Tensor, actions: Tensor, log_probs: Tensor, values: Tensor, advantages: Tensor,
    returns: Tensor,
) -> tuple[Minibatch, Tensor]:  # fmt: skip
    """Steps without memory: each is a sequence of its own, of weight 1. And their places."""
    size = len(places)
    is_never = torch.zeros(size, dtype=torch.bool)
    minibatch = Minibatch(
        observation={}, prev_action=torch.zeros(size, 1), is_first=is_never,
        action=actions.unsqueeze(-1), log_prob=log_probs, value=values, advantage=advantages,
        returns=returns, is_weight=torch.ones(size), is_stale=is_never,
        start_state=torch.zeros(size, 0), batch_sizes=torch.tensor([size]),
    )  # fmt: skip
    return minibatch, places
