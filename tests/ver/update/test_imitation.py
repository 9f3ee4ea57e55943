"""Imitation learns the labelled slots, those alone, and what an earlier rollout taught."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from taught_env import TEACHER, A, Taught

from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.algorithm import LearnerCfg
from rearrange.ver.update.imitation import Imitation, ImitationCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.workers.spaces import action_spec, observation_spec

CPU = torch.device("cpu")
E, S = 4, 64
SEEN = observation_spec(spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,))}))
ALL = SEEN | observation_spec(
    spaces.Dict({"oracle_action": spaces.Box(-1, 1, (A,)), "oracle_weight": spaces.Box(0, 9, (A,))})
)
ACTION = action_spec(spaces.Box(-1.0, 1.0, (A,)))


def rollout(policy, rng, side=0, label_of=lambda place: place @ TEACHER.T):
    """Steps of E environments; the last slot's labels count for nothing. side: 0 any, +-1 half."""
    storage = RolloutStorage(S, E, ALL, ACTION, policy.state_size, CPU)
    rows = storage.allocate(S)
    place = rng.uniform(-1.0, 1.0, (S, 2))
    if side:
        place[:, 0] = side * np.abs(place[:, 0])
    label = label_of(place)
    label[:, 2] = rng.choice([-1.0, 1.0], S)
    weight = np.tile([1.0, 2.0, 0.0], (S, 1))
    for name, values in (("place", place), ("oracle_action", label), ("oracle_weight", weight)):
        storage.observation[name][rows] = torch.from_numpy(values.astype(np.float32))
    storage.env_id[rows], storage.step_id[rows] = np.arange(S) % E, np.arange(S) // E
    for row in rows:
        storage.complete(row, 0.0, False, False)
    return storage


def make(seed=0, num_components=1, **settings):
    torch.manual_seed(seed)
    cfg = PolicyCfg(
        vector_size=0,
        prev_action_size=0,
        hidden_sizes=[32],
        lstm_layers=0,
        num_components=num_components,
    )
    policy = build_policy(SEEN, ACTION, cfg)
    ppo = PPOCfg(num_epochs=4, num_minibatches=2, learning_rate=3e-3)
    learner = Imitation(
        policy,
        LearnerCfg(ppo=ppo),
        E,
        CPU,
        np.random.default_rng(seed),
        imitation=ImitationCfg(**settings),
    )
    return policy, learner


def errors(policy, rng, side=0):
    """Root mean square of mean action - teacher on fresh places, [A]."""
    place = rng.uniform(-1.0, 1.0, (200, 2)).astype(np.float32)
    if side:
        place[:, 0] = side * np.abs(place[:, 0])
    with torch.no_grad():
        step = policy.act(
            {"place": torch.from_numpy(place)}, torch.zeros(200, A),
            torch.zeros(200, dtype=torch.bool), torch.zeros(200, 0), deterministic=True,
        )  # fmt: skip
    return np.sqrt(np.mean((step.action.numpy() - place @ TEACHER.T) ** 2, axis=0))


def test_the_teachers_actions_are_learned_where_they_have_a_weight():
    policy, learner = make()
    rng = np.random.default_rng(1)
    std = policy.actor.log_std.detach().clone()
    before = errors(policy, rng)
    for _ in range(150):
        metrics = learner.learn(rollout(policy, rng))
    after = errors(policy, rng)
    assert before[:2].min() > 0.2 and after[:2].max() < 0.03
    assert metrics["imitation/error"] < 0.05 and metrics["imitation/labelled"] == 1.0
    torch.testing.assert_close(policy.actor.log_std.detach(), std)  # exploration is kept


def test_slots_without_weight_are_left_alone():
    policy, learner = make()
    frozen = policy.actor.linear.weight.detach()[2].clone()
    learner.learn(rollout(policy, np.random.default_rng(1)))
    torch.testing.assert_close(policy.actor.linear.weight.detach()[2], frozen)


def test_what_an_earlier_rollout_taught_is_kept_by_the_memory():
    left = {}
    for memory in (1, 40):
        policy, learner = make(memory_rollouts=memory)
        rng = np.random.default_rng(2)
        for side in (1, -1):
            for _ in range(60):
                learner.learn(rollout(policy, rng, side))
        left[memory] = errors(policy, rng, side=1)[:2].max()
    assert left[40] < 0.7 * left[1]


def taught(rng, label_of, **settings):
    """A policy after 150 rollouts with the same labels [S, 1] of places [S, 2] in every slot."""
    policy, learner = make(**settings)
    for _ in range(150):
        learner.learn(
            rollout(policy, rng, label_of=lambda place: np.repeat(label_of(place), A, axis=1))
        )
    return policy


def act_at(policy, place):
    """Most likely actions [n, A] at places [n, 2]."""
    n = len(place)
    seen = {"place": torch.as_tensor(place, dtype=torch.float32)}
    first = torch.zeros(n, dtype=torch.bool)
    with torch.no_grad():
        step = policy.act(seen, torch.zeros(n, A), first, torch.zeros(n, 0), deterministic=True)
    return step.action.numpy()


def of_two_kinds(rng, **settings):
    """What a policy does that is told to go on in two steps of three, to go back in the third,
    wherever it is."""

    def label_of(place):
        return rng.choice([0.8, -0.8], (len(place), 1), p=[2 / 3, 1 / 3])

    return act_at(taught(rng, label_of, **settings), np.zeros((1, 2)))[0, :2]


def test_labels_of_two_kinds_are_averaged_by_squares_and_decided_by_huber():
    rng = np.random.default_rng(3)
    learned = {delta: of_two_kinds(rng, huber_delta=delta) for delta in (0.0, 0.05)}
    assert learned[0.0] == pytest.approx(0.8 / 3, abs=0.15)  # the mean of the labels
    assert learned[0.05] == pytest.approx(0.8, abs=0.1)  # their median


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_with_several_means_one_kind_of_label_is_followed_and_not_the_mean(delta):
    learned = of_two_kinds(np.random.default_rng(3), num_components=2, huber_delta=delta)
    assert learned == pytest.approx(0.8, abs=0.1)


def test_with_several_means_hardly_any_action_lies_between_two_opposite_ones():
    """Go on to the right of a line, back to the left of it: one smooth function stops at it."""
    rng = np.random.default_rng(4)
    undecided = {}
    places = np.stack([np.linspace(-0.3, 0.3, 601), np.zeros(601)], axis=1)
    for number in (1, 2):
        policy = taught(
            rng, lambda place: 0.8 * np.sign(place[:, :1]), num_components=number, huber_delta=0.15
        )
        actions = act_at(policy, places)[:, 0]
        undecided[number] = (np.abs(actions) < 0.5).mean()
        assert actions[0] < -0.6 and actions[-1] > 0.6
    assert undecided[2] < 0.2 * undecided[1], undecided


@pytest.mark.parametrize("error", [0.03, 0.2, -1.4])
def test_huber_loss_goes_with_the_size_of_large_errors_and_with_the_square_of_small(error):
    _, learner = make(huber_delta=0.1)
    loss = learner._errors(
        torch.full((4, A), error), torch.zeros(4, A), torch.tensor([1.0, 2.0, 0.0])
    ).mean()
    per_slot = abs(error) - 0.05 if abs(error) > 0.1 else 5.0 * error**2
    assert float(loss) == pytest.approx(3.0 * per_slot, rel=1e-5)


def test_settings_must_make_sense():
    with pytest.raises(ValueError, match="huber_delta must not be negative"):
        ImitationCfg(huber_delta=-0.1)
    with pytest.raises(ValueError, match="memory_rollouts must be at least 1"):
        ImitationCfg(memory_rollouts=0)


def train(run_dir, updates, serial=True, memory_rollouts=3, **settings):
    policy_cfg = PolicyCfg(
        vector_size=0, prev_action_size=0, hidden_sizes=[8], lstm_hidden=4, lstm_layers=1
    )
    imitation = ImitationCfg(memory_rollouts=memory_rollouts)
    settings = {
        "num_envs": 2, "num_steps": 16, "device": "cpu", "serial": serial, "resume": "auto",
        "schedule": "constant", "ppo": PPOCfg(num_epochs=4, num_minibatches=2),
    } | settings  # fmt: skip
    cfg = TrainerCfg(total_steps=updates * settings["num_envs"] * settings["num_steps"], **settings)
    training = Trainer(
        Taught, lambda seen, action: build_policy(SEEN, action, policy_cfg), cfg, run_dir,
        make_algorithm=partial(Imitation, imitation=imitation), is_quiet=True,
    )  # fmt: skip
    remembered = None if training.algorithm.memory is None else len(training.algorithm.memory)
    training.run()
    return remembered


def losses(run_dir):
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").open()]
    return [line["loss/imitation"] for line in lines]


def memory_files(run_dir):
    return sorted(path.name for path in (run_dir / "checkpoints/memory").iterdir())


def test_imitation_resumes_to_the_last_bit(tmp_path):
    """Stopped twice, once while the memory grows and once when it forgets."""
    train(tmp_path / "whole", 8)
    for updates, remembered in ((2, 0), (5, 2), (8, 3)):
        assert train(tmp_path / "parts", updates) == remembered
    one, other = (load_newest(tmp_path / name / "checkpoints") for name in ("whole", "parts"))
    assert one.tensors.keys() == other.tensors.keys() and one.manifest == other.manifest
    for name, tensor in one.tensors.items():
        assert tensor.numpy().tobytes() == other.tensors[name].numpy().tobytes(), name
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")
    named = [record["file"] for record in one.manifest["memory"]]
    assert sorted(named) == memory_files(tmp_path / "whole") and len(named) == 3


def test_with_workers_the_memory_is_back(tmp_path):
    train(tmp_path, 2, serial=False, num_envs=4, num_steps=8)
    assert train(tmp_path, 3, serial=False, num_envs=4, num_steps=8) == 2
    assert train(tmp_path, 4, num_envs=2, num_steps=8) == 3  # other sizes, too


def test_files_go_with_the_checkpoints_that_name_them_and_are_written_once(tmp_path):
    folder = tmp_path / "checkpoints/memory"
    train(tmp_path, 3, keep_checkpoints=1)
    first = {name: (folder / name).stat() for name in memory_files(tmp_path)}
    (folder / ".half.unfinished-1").write_bytes(b"half")
    train(tmp_path, 4, keep_checkpoints=1)
    after = memory_files(tmp_path)
    assert len(first) == len(after) == 3 and len(set(after) & set(first)) == 2
    for name in set(after) & set(first):
        now = (folder / name).stat()
        assert (now.st_ino, now.st_mtime_ns) == (first[name].st_ino, first[name].st_mtime_ns)
    train(tmp_path, 6, keep_checkpoints=2)
    assert len(memory_files(tmp_path)) == 5  # the checkpoint before is whole as well


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage, word",
    [
        (lambda path: path.unlink(), "there is no file"),
        (flip, "does not match its checksum"),
        (lambda path: path.write_bytes(path.read_bytes() + b"more"), "it has more"),
    ],
)
def test_a_rollout_whose_file_is_damaged_is_left_out_in_one_line(tmp_path, caplog, damage, word):
    train(tmp_path, 3)
    damage(tmp_path / "checkpoints/memory" / memory_files(tmp_path)[1])
    assert train(tmp_path, 4) == 2
    (line,) = [r.getMessage() for r in caplog.records if "remembered" in r.getMessage()]
    assert line.startswith("1 of 3 remembered rollouts are lost, going on with the others: ")
    assert word in line and "\n" not in line
    assert train(tmp_path, 4) == 3  # and is whole again in the next checkpoint
