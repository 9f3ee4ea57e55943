"""PPO on the chain of blocks, and what is measured of it after each update.

    table of the policy [B, A], [B] --> K steps of N chains --> advantages --> E x M minibatches
          ^------------------------------------------------------------------------'

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning", section B.2, table 2, and E.0.1 for what is measured. Loss and advantages are the
trainer's (`ppo_loss`, `compute_advantages`), the resets `StaggeredResets`; the loop is this one,
because an agent that sees only its block is a table: the network is asked once for each block, not
for each step, which gives the same gradients for a sixteenth of the work.

What the paper leaves open, and what holds here: actor and critic share the layers; weights are
orthogonal; advantages are normalised in each minibatch, Adam's epsilon is 1e-5 and the learning
rate constant, as in the paper's other experiments (table 3); each seed has right actions of its
own.

Legend: N chains, K steps of a rollout, S = N K, B blocks, U blocks of a rollout, A actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

from rearrange.skills.network.embedding import layer
from rearrange.ver.rollout.staggered import StaggerCfg, StaggeredResets
from rearrange.ver.rollout.types import Evaluation, Minibatch
from rearrange.ver.update.ppo import PPOCfg, ppo_loss
from rearrange.ver.update.returns import ReturnsCfg, compute_advantages
from rearrange.workloads.skill_chain import SkillChainVectorEnv

ROLLOUT_STEPS = 5  # K
EMBEDDING, HIDDEN = 64, (256, 256, 256, 256)
ENTROPY_COEF = 0.01
PPO = PPOCfg(
    learning_rate=3e-4, num_epochs=4, num_minibatches=4, clip_coef=0.2, value_coef=0.5,
    max_grad_norm=0.5, normalize_advantages=True,
)  # fmt: skip
RETURNS = ReturnsCfg(gamma=0.99, gae_lambda=0.95)
ACTOR_GAIN = 0.01  # of the last layer's weights: all actions are alike at the start
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


class Table(NamedTuple):
    """What the policy does and expects in each block."""

    log_probs: np.ndarray  # [B, A]
    values: np.ndarray  # [B]

    def draw(self, blocks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action for each of these, [N]."""
        sums = np.exp(self.log_probs).cumsum(axis=1)
        sums[:, -1] = 1.0  # what is left out by rounding
        return (sums[blocks] <= rng.random((len(blocks), 1))).sum(axis=1)


class Rollout(NamedTuple):
    """Steps, those of one chain one after the other, [S] each."""

    blocks: np.ndarray
    actions: np.ndarray
    returns: np.ndarray
    advantages: np.ndarray


class ChainNetwork(nn.Module):
    """Blocks [U] -> log-probabilities [U, A] and values [U]."""

    def __init__(self, num_blocks: int, num_actions: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_blocks, EMBEDDING)
        sizes = (EMBEDDING, *HIDDEN)
        pairs = zip(sizes, sizes[1:], strict=False)
        self.hidden = nn.Sequential(*(layer(a, b, "relu") for a, b in pairs))
        self.actor, self.critic = nn.Linear(HIDDEN[-1], num_actions), nn.Linear(HIDDEN[-1], 1)
        for head, gain in ((self.actor, ACTOR_GAIN), (self.critic, 1.0)):
            nn.init.orthogonal_(head.weight, gain)
            nn.init.zeros_(head.bias)

    def forward(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        x = self.hidden(self.embedding(blocks))
        return self.actor(x).log_softmax(dim=-1), self.critic(x).squeeze(-1)

    @torch.no_grad()
    def table(self) -> Table:
        log_probs, values = self(torch.arange(self.embedding.num_embeddings))
        return Table(log_probs.double().numpy(), values.double().numpy())


def make_chains(run: ChainRun) -> VectorEnv:
    """N chains that reset themselves in the step in which they end."""
    mode = AutoresetMode.DISABLED if run.is_staggered else AutoresetMode.SAME_STEP
    chains = SkillChainVectorEnv(
        run.num_envs, horizon=run.horizon, progression=run.progression, target_seed=run.seed,
        autoreset_mode=mode,
    )  # fmt: skip
    if not run.is_staggered:
        return chains
    cfg = StaggerCfg(horizon=run.horizon, rollout_steps=ROLLOUT_STEPS)
    return StaggeredResets(chains, cfg)


def train(run: ChainRun) -> Learned:
    """Trains and measures. Draws from torch's global generator."""
    torch.manual_seed(run.seed)
    rng = np.random.default_rng(run.seed)
    chains = make_chains(run)
    targets = chains.unwrapped.targets
    network = ChainNetwork(len(targets), chains.unwrapped.num_actions)
    optimizer = torch.optim.Adam(
        network.parameters(), lr=PPO.learning_rate, eps=PPO.adam_eps, fused=True
    )
    blocks, _ = chains.reset(seed=run.seed * run.num_envs)
    learned, table = Learned([], [], [], 0.0), network.table()
    for _ in range(run.num_updates):
        rollout, blocks = collect(chains, blocks, table, rng)
        error = table.values[rollout.blocks] - rollout.returns
        learned.value_error.append(float(np.square(error).mean()))
        update(network, optimizer, rollout, table, rng)
        old, table = table, network.table()
        change = (table.log_probs - old.log_probs)[rollout.blocks, rollout.actions]
        learned.policy_kl.append(0.5 * float(np.square(change).mean()))
        right = np.exp(table.log_probs)[np.arange(len(targets)), targets]
        learned.accuracy.append(right.round(4).tolist())
    learned.success = success(run, table, rng)
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
    columns = (torch.from_numpy(x.T.ravel()) for x in (rewards, values, next_values))
    ends = (torch.from_numpy(x.T.ravel()) for x in (terminated, ended))
    advantages = compute_advantages(*columns, *ends, RETURNS).double().numpy()
    returns = values.T.ravel() + advantages
    return Rollout(seen.T.ravel(), actions.T.ravel(), returns, advantages), blocks


def update(
    network: ChainNetwork,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    old: Table,  # by which it was collected
    rng: np.random.Generator,
) -> None:
    """PPO's epochs over a rollout."""
    known, place = np.unique(rollout.blocks, return_inverse=True)
    blocks, places = torch.from_numpy(known), torch.from_numpy(place)
    for _ in range(PPO.num_epochs):
        order = rng.permutation(len(place))
        for rows in np.array_split(order, PPO.num_minibatches):
            log_probs, values = network(blocks)
            entropies = -(log_probs.exp() * log_probs).sum(dim=-1)
            minibatch, at = _minibatch(rollout, old, rows), places[torch.from_numpy(rows)]
            actions = minibatch.action.squeeze(-1)
            evaluation = Evaluation(log_probs[at, actions], entropies[at], values[at])
            loss, _ = ppo_loss(evaluation, minibatch, ENTROPY_COEF, PPO)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), PPO.max_grad_norm)
            optimizer.step()


def success(run: ChainRun, table: Table, rng: np.random.Generator) -> float:
    """The share of N whole episodes that end in the last block."""
    chains = SkillChainVectorEnv(
        run.num_envs, horizon=run.horizon, progression=run.progression, target_seed=run.seed,
        autoreset_mode=AutoresetMode.DISABLED,
    )  # fmt: skip
    blocks, infos = chains.reset(seed=EVALUATION + run.seed * run.num_envs)
    for _ in range(run.horizon):
        blocks, _, _, _, infos = chains.step(table.draw(blocks, rng))
    return float(infos["success"].mean())


def _minibatch(rollout: Rollout, old: Table, rows: np.ndarray) -> Minibatch:
    """Steps without memory: each is a sequence of its own, of weight 1."""
    blocks, actions = rollout.blocks[rows], rollout.actions[rows]
    size = len(rows)

    def column(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32))

    return Minibatch(
        observation={"block": torch.from_numpy(blocks)},
        prev_action=torch.zeros(size, 1, dtype=torch.int64),
        is_first=torch.zeros(size, dtype=torch.bool),
        action=torch.from_numpy(actions).unsqueeze(-1),
        log_prob=column(old.log_probs[blocks, actions]),
        value=column(old.values[blocks]),
        advantage=column(rollout.advantages[rows]),
        returns=column(rollout.returns[rows]),
        is_weight=torch.ones(size),
        is_stale=torch.zeros(size, dtype=torch.bool),
        start_state=torch.zeros(size, 0),
        batch_sizes=torch.tensor([size]),
    )
