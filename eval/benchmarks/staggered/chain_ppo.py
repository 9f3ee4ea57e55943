"""PPO on the chain of blocks, and what is measured of it after each update.

    table of the policy [B, A], [B] --> K steps of N chains --> advantages --> E x M minibatches
          ^------------------------------------------------------------------------'

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning", section B.2, table 2, and E.0.1 for what is measured. Loss and advantages are the
trainer's (`ppo_loss`, `compute_advantages`), the resets `StaggeredResets`; the loop is this one,
because an agent that sees only its block is a table: the network is asked once for each block, not
for each step, and several trainings learn in step, their networks stacked, each with gradients and
an optimiser state of its own. Both change nothing but the time that it takes.

What the paper leaves open, and what holds here: actor and critic share the layers; weights are
orthogonal; advantages are normalised in each minibatch, Adam's epsilon is 1e-5 and the learning
rate constant, as in the paper's other experiments (table 3); each seed has right actions of its
own.

Legend: N chains, K steps of a rollout, S = N K, B blocks, U blocks of a rollout, A actions,
R trainings in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn
from torch.func import vmap

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
    """One network: blocks [U] -> log-probabilities [U, A] and values [U]."""

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


class Networks:
    """R networks whose weights are stacked, each drawn by its seed."""

    def __init__(self, seeds: list[int], num_blocks: int, num_actions: int) -> None:
        drafts = []
        for seed in seeds:
            torch.manual_seed(seed)
            drafts.append(ChainNetwork(num_blocks, num_actions).state_dict())
        # Matrices the other way round than torch's: their gradients then need no copies.
        self.weights = {
            name: torch.stack([_turned(name, draft[name]) for draft in drafts]).requires_grad_()
            for name in drafts[0]
        }
        """{name: [R, ...]}"""
        self._blocks = torch.arange(num_blocks).repeat(len(seeds), 1)
        self._each = torch.arange(len(seeds)).unsqueeze(-1)
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=PPO.learning_rate, eps=PPO.adam_eps, fused=True
        )

    def __call__(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Each network's log-probabilities [R, U, A] and values [R, U] of blocks [R, U]."""
        x = self.weights["embedding.weight"][self._each, blocks]
        for i in range(len(HIDDEN)):
            x = self._linear(f"hidden.{i}.0", x).relu()
        return self._linear("actor", x).log_softmax(dim=-1), self._linear("critic", x).squeeze(-1)

    def tables(self) -> list[Table]:
        """What each network makes of all blocks."""
        with torch.no_grad():
            log_probs, values = self(self._blocks)
        pairs = zip(log_probs.double().numpy(), values.double().numpy(), strict=True)
        return [Table(*pair) for pair in pairs]

    def learn(self, losses: Tensor) -> None:
        """A step of each by its loss, [R]; gradients are clipped one by one."""
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        gradients = [weight.grad for weight in self.weights.values() if weight.grad is not None]
        norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
        factors = PPO.max_grad_norm / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)
        for gradient in gradients:
            gradient.mul_(factors.clamp(max=1.0).view(-1, *[1] * (gradient.dim() - 1)))
        self.optimizer.step()

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return torch.baddbmm(
            self.weights[f"{name}.bias"].unsqueeze(1), x, self.weights[f"{name}.weight"]
        )


def _turned(name: str, weight: Tensor) -> Tensor:
    return weight if weight.dim() == 1 or name.startswith("embedding") else weight.T


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


def train(runs: list[ChainRun]) -> list[Learned]:
    """Trains in step and measures. All must have the same horizon and number of updates.

    Draws from torch's global generator. What becomes of a training depends on those beside it only
    as far as products of stacked matrices are rounded in another way.
    """
    all_chains = [make_chains(run) for run in runs]
    rngs = [np.random.default_rng(run.seed) for run in runs]
    targets = [chains.unwrapped.targets for chains in all_chains]
    places = np.arange(len(targets[0]))
    networks = Networks(
        [run.seed for run in runs], len(places), all_chains[0].unwrapped.num_actions
    )
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
    columns = (torch.from_numpy(x.T.ravel()) for x in (rewards, values, next_values))
    ends = (torch.from_numpy(x.T.ravel()) for x in (terminated, ended))
    advantages = compute_advantages(*columns, *ends, RETURNS).double().numpy()
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
    chains = SkillChainVectorEnv(
        run.num_envs, horizon=run.horizon, progression=run.progression, target_seed=run.seed,
        autoreset_mode=AutoresetMode.DISABLED,
    )  # fmt: skip
    blocks, infos = chains.reset(seed=EVALUATION + run.seed * run.num_envs)
    for _ in range(run.horizon):
        blocks, _, _, _, infos = chains.step(table.draw(blocks, rng))
    return float(infos["success"].mean())


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
