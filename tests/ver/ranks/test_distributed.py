"""Two ranks learn what one process learns from the same data, and agree on everything else."""

import numpy as np
import pytest
import torch
from forked_ranks import on_ranks
from test_learner import ACTION, CPU, OBSERVATION, E, S, collect

from rearrange.errors import UserError
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.ver.ranks.distributed import ALONE, RankInfo, Ranks, checksum, read_rank_info
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.update.algorithm import LearnerCfg
from rearrange.ver.update.entropy import EntropyCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.update.ppo_learner import PPO

POLICY = PolicyCfg(
    vector_size=0, prev_action_size=4, hidden_sizes=[16], lstm_hidden=8, lstm_layers=1,
    normalize_observations=True,
)  # fmt: skip


def make_learner(ranks=ALONE, num_envs=E, **settings):
    torch.manual_seed(0)
    policy = build_policy(OBSERVATION, ACTION, POLICY)
    ppo = PPOCfg(
        num_epochs=2, num_minibatches=1, learning_rate=1e-3, normalize_advantages=True,
        max_grad_norm=0.1,
    )  # fmt: skip
    entropy = EntropyCfg(learned=True, target=0.5)
    cfg = LearnerCfg(ppo=ppo, entropy=entropy, normalize_rewards=True, **settings)
    return PPO(policy, cfg, num_envs, CPU, np.random.default_rng(ranks.rank), ranks)


def rollout(policy, rank, is_short=False):
    """A rank's; of one that `is_short` rank 1 has no steps of its environments but the first."""
    torch.manual_seed(100 + rank)  # the actions are drawn
    storage = collect(policy, lambda observation, action: observation[0] + action, seed=rank)
    if is_short and rank == 1:
        storage.drop(np.flatnonzero(storage.is_complete & (storage.env_id > 0)))
    return storage


def joined_rollouts(policy, is_short):
    """The rollouts of two ranks in one storage of twice the size."""
    whole = RolloutStorage(2 * S, 2 * E, OBSERVATION, ACTION, policy.state_size, CPU)
    for rank in range(2):
        part = rollout(policy, rank, is_short)
        rows = whole.allocate(part.num_complete)
        whole.write(rows, part.read(part.complete_rows()))
        whole.env_id[rows] += rank * E
        whole.num_complete += len(rows)
    return whole


def state_of(learner):
    """All that has to be the same on all ranks, as plain numbers."""
    numbers = {name: value.tolist() for name, value in learner.policy.state_dict().items()}
    grads = {f"grad {name}": p.grad.tolist() for name, p in learner.policy.named_parameters()}
    own = {"alpha": learner.entropy.log_alpha.item(), "scaler": learner.scaler.state()["moments"]}
    return numbers | grads | own


@pytest.mark.parametrize("is_short", [False, True])
def test_two_ranks_learn_as_one_process_with_the_data_of_both(tmp_path, is_short):
    # The weights against uneven sampling are a rank's own: where its rollouts differ in size they
    # would differ from one process's, unless all are at their maximum.
    settings = {"max_importance_weight": 0.01} if is_short else {}
    alone = make_learner(num_envs=2 * E, **settings)
    alone.learn(joined_rollouts(alone.policy, is_short))
    expected = state_of(alone)

    def work(ranks):
        learner = make_learner(ranks, **settings)
        learner.learn(rollout(learner.policy, ranks.rank, is_short))
        return state_of(learner)

    first, second = on_ranks(work, tmp_path)
    assert first == second  # to the last bit
    assert first.keys() == expected.keys() and any(name.startswith("grad") for name in first)
    for name, value in expected.items():
        np.testing.assert_allclose(first[name], value, atol=1e-6, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("on_nonfinite", ["stop", "drop"])
def test_a_loss_that_is_not_finite_on_one_rank_concerns_all(tmp_path, on_nonfinite):
    def work(ranks):
        learner = make_learner(ranks, on_nonfinite=on_nonfinite)
        storage = rollout(learner.policy, ranks.rank)
        before = checksum(dict(learner.policy.named_parameters()))
        if ranks.rank == 1:
            storage.log_prob[storage.complete_rows()[5]] = float("nan")
        try:
            metrics = learner.learn(storage)
        except NonFinite as error:
            return str(error)
        assert checksum(dict(learner.policy.named_parameters())) == before
        return metrics["ppo/skipped_minibatches"]

    first, second = on_ranks(work, tmp_path)
    assert first == second
    if on_nonfinite == "drop":
        assert first == 2  # one minibatch in each of two epochs
    else:
        assert first.startswith("rank 1: loss nan") and "environment" in first


def test_everything_that_travels_arrives(tmp_path):
    def work(ranks):
        r = ranks.rank
        weights = {"a": torch.full((3, 2), float(r)), "b": torch.tensor(r, dtype=torch.float64)}
        ranks.copy_from_first(weights)
        parameters = [torch.zeros(2, requires_grad=True) for _ in range(3)]
        if r == 0:
            parameters[0].grad = torch.tensor([2.0, 4.0])
        parameters[1].grad = torch.tensor([1.0 + r, 0.0])
        scalar = torch.tensor(float(r))
        ranks.average_gradients(parameters, [scalar])
        found = {
            "weights": [value.tolist() for value in weights.values()],
            "grads": [p.grad is not None and p.grad.tolist() for p in parameters],
            "scalar": float(scalar),
            "rows": [part.tolist() for part in ranks.gather_rows(torch.arange(2.0 * r) + r)],
            "values": ranks.gather({"rank": r, "nan": float("inf")}),
            "any": [ranks.any(r == 1), ranks.any(False)],
            "shared": list(ranks.share(bytes([1, 2, 3]) if r == 0 else None)),
            "first": ranks.on_first(lambda: {"by": r}),
        }
        ranks.announce_finished()
        ranks.gather(None)
        found["finished"], found["stop"] = ranks.num_finished(), ranks.is_stop_announced()
        try:
            ranks.on_first(refuse)
        except UserError as error:
            found["refused"] = str(error)
        try:
            ranks.check_same("settings", {"seed": 3, "lr": 0.1 * (1 + r)})
        except UserError as error:
            found["differs"] = str(error)
        return found

    def refuse():
        raise UserError("no")

    first, second = on_ranks(work, tmp_path)
    assert (
        first
        == second
        == {
            "weights": [[[0.0, 0.0]] * 3, 0.0],
            "grads": [[1.0, 2.0], [1.5, 0.0], False],  # missing on one rank: zero; on both: missing
            "scalar": 0.5,
            "rows": [[], [1.0, 2.0]],
            "values": [{"rank": 0, "nan": float("inf")}, {"rank": 1, "nan": float("inf")}],
            "any": [True, False],
            "shared": [1, 2, 3],
            "first": {"by": 0},
            "finished": 2,
            "stop": False,
            "refused": "no",
            "differs": "all ranks need the same settings: lr is 0.1 on rank 0 and 0.2 on rank 1",
        }
    )


def test_torchruns_variables_are_read_or_refused():
    assert read_rank_info({}) == RankInfo() and ALONE.is_alone and ALONE.is_first
    variables = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert read_rank_info(variables) == RankInfo(5, 8, 1, 4)
    for wrong in ({"RANK": "x"}, {"RANK": "8"}, {"LOCAL_RANK": "4"}, {"WORLD_SIZE": "-1"}):
        with pytest.raises(UserError):
            read_rank_info(variables | wrong)


def test_ranks_draw_from_different_streams():
    ranks = [Ranks(RankInfo(rank, 4)) for rank in range(4)]
    assert ranks[0].seed(7) == 7
    seeds = {rank.seed(7) for rank in ranks} | {rank.seed(7, 64) for rank in ranks}
    assert len(seeds) == 8
