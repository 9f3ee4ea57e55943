"""Whole trainings, small: what is learned, written and resumed."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_env import MakeFake

from rearrange.errors import UserError
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.tasks.gym_factory import make_gym
from rearrange.ver.rollout.collector import CollectorCfg
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.validation import Validation, ValidationResult
from rearrange.ver.sapg.sapg_learner import SAPG
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import MODES, TrainerCfg
from rearrange.ver.update.ppo import PPOCfg

E, T = 4, 16
S = E * T
SMALL = PolicyCfg(
    vector_size=0, prev_action_size=4, hidden_sizes=[16], lstm_hidden=8, lstm_layers=1,
    normalize_observations=True,
)  # fmt: skip
CART_POLE = partial(make_gym, env_id="CartPole-v1", num_envs=E)
PICK = partial(
    make_gym, env_id="rearrange/Pick-v0", num_envs=1, kwargs={"depth": False, "camera_size": 32}
)
TIMES = ("speed/", "phase/", "time_s")


def trainer(
    run_dir, updates=2, make_env=CART_POLE, policy=SMALL, after=None, hook=None, make_envs=None,
    validation=None, **cfg,
):  # fmt: skip
    """A trainer of so many updates.

    Args:
        after: asks for a stop during this update, to be seen at its end.
        hook: called with the trainer whenever its policy acts.
    """
    settings = {
        "num_envs": E, "num_steps": T, "device": "cpu", "seed": 3, "normalize_rewards": True,
        "ppo": PPOCfg(num_epochs=2, num_minibatches=2, learning_rate=1e-3),
    }  # fmt: skip
    settings |= cfg
    size = settings["num_envs"] * settings["num_steps"]
    made = []

    class Stopping(SAPG):  # of one block it is PPO
        def update(self, *args, **kwargs):
            if made[0].updates + 1 == after:
                made[0].request_stop()
            return super().update(*args, **kwargs)

    def build(*spec):
        built = build_policy(*spec, policy)
        if hook is not None:
            act = built.act

            def watched(*args, **kwargs):
                hook(made[0])
                return act(*args, **kwargs)

            built.act = watched
        return built

    made.append(
        Trainer(
            make_env, build, TrainerCfg(total_steps=updates * size, **settings), run_dir,
            identity={"env": "it"}, is_quiet=True, make_envs=make_envs, validation=validation,
        )
    )  # fmt: skip
    if after is not None:  # with the state that was restored, but asking for a stop
        made[0].algorithm.__class__ = Stopping
    return made[0]


def metrics(run_dir):
    """Lines of metrics.jsonl without what a clock says."""
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith(TIMES)} for line in lines]


def assert_same_state(one, other):
    """Weights, moments, random numbers, memories: all tensors and values of the checkpoints."""
    one, other = (load_newest(folder / "checkpoints") for folder in (one, other))
    assert one.step == other.step and one.tensors.keys() == other.tensors.keys()
    assert any(name.startswith("optimizer/") for name in one.tensors)
    for name, tensor in one.tensors.items():
        # bytes, because an episode's info may be NaN
        assert tensor.numpy().tobytes() == other.tensors[name].numpy().tobytes(), name
    assert one.manifest == other.manifest


@pytest.mark.parametrize("mode", MODES)
def test_no_steps_count_more_than_others_in_any_mode(tmp_path, mode):
    """A rollout of a fixed length may be cut short, where one environment has only just begun."""
    algorithm = trainer(tmp_path, 1, mode=mode).algorithm
    assert algorithm.cfg.max_importance_weight == TrainerCfg().max_importance_weight == 1.0


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_learns_with_workers(tmp_path, mode):
    training = trainer(tmp_path, 3, mode=mode)
    before = {name: value.clone() for name, value in training.policy.state_dict().items()}
    summary = training.run()
    assert summary["total_steps"] == 3 * S and summary["stopped_by"] is None
    changed = [name for name, p in training.policy.named_parameters() if (p != before[name]).any()]
    assert len(changed) == len(list(training.policy.named_parameters()))
    lines = metrics(tmp_path)
    assert [line["step"] for line in lines] == [S, 2 * S, 3 * S]
    lag = np.mean([line["ver/policy_lag"] for line in lines])
    if mode == "htsrl":
        assert lag > 0.5
    elif mode == "async":  # at most four optimiser steps for each update that they lag behind
        for line in lines:
            assert 1.5 <= line["ver/gradient_staleness"] <= 1.5 + 4 * line["ver/policy_lag"]
    else:
        assert 0.0 <= lag < (0.2 if mode == "ver" else 1e-9)
    finished = lines[-1]["episode/finished"]
    averaged = summary["episode_return"]["episodes"]
    assert 0 < averaged == lines[-1]["episode/averaged"] <= min(100, finished)
    # CartPole gives 1 for each step: return and length are the same number
    assert lines[-1]["episode/return"] == pytest.approx(lines[-1]["episode/length"])


def test_cart_pole_gets_better(tmp_path):
    ppo = PPOCfg(num_epochs=6, num_minibatches=2, learning_rate=5e-3, normalize_advantages=True)
    policy = PolicyCfg(vector_size=0, prev_action_size=0, hidden_sizes=[32], lstm_layers=0)
    training = trainer(
        tmp_path, 24, serial=True, num_envs=8, num_steps=32, ppo=ppo, policy=policy,
        schedule="constant", normalize_rewards=True,
    )  # fmt: skip
    training.run()
    lengths = [line["episode/length"] for line in metrics(tmp_path)]
    assert lengths[0] < 30.0 and lengths[-1] > 35.0  # of the newest 100 episodes


SERIAL = [
    (CART_POLE, {"mode": "ver"}),
    (CART_POLE, {"mode": "ddppo", "start_mode": "advance"}),
    (MakeFake(), {"mode": "nover", "start_mode": "clock", "start_horizon": 40}),
    (CART_POLE, {"mode": "ver", "start_mode": "staggered", "start_horizon": 40}),
    (PICK, {"mode": "ver", "num_envs": 1, "num_steps": 8}),
]


@pytest.mark.parametrize(
    ("make_env", "settings"), SERIAL, ids=["cart", "advance", "fake", "staggered", "pick"]
)
def test_a_serial_training_resumes_to_the_last_bit(tmp_path, make_env, settings):
    make = partial(trainer, updates=6, make_env=make_env, serial=True, **settings)
    make(tmp_path / "whole").run()
    stopped = make(tmp_path / "parts", after=3).run()
    assert stopped["stopped_by"] == "SIGINT" and len(metrics(tmp_path / "parts")) == 3
    torch.manual_seed(999)  # what another process would have
    resumed = make(tmp_path / "parts", resume="auto")
    assert resumed.updates == 3
    assert resumed.run()["stopped_by"] is None
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    assert_same_state(tmp_path / "whole", tmp_path / "parts")


def test_a_stop_inside_a_rollout_resumes_to_the_last_bit(tmp_path):
    calls = []

    def stop_later(training):
        calls.append(None)
        if len(calls) == int(2.5 * T):
            training.request_stop()

    make = partial(trainer, updates=4, serial=True)
    make(tmp_path / "whole").run()
    make(tmp_path / "parts", hook=stop_later).run()
    assert len(metrics(tmp_path / "parts")) == 2
    make(tmp_path / "parts", resume="auto").run()
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    assert_same_state(tmp_path / "whole", tmp_path / "parts")


def test_a_stop_before_the_first_update_resumes_to_the_last_bit(tmp_path):
    make = partial(trainer, updates=2, serial=True, start_mode="advance")
    make(tmp_path / "whole").run()
    make(tmp_path / "parts", hook=lambda training: training.request_stop()).run()
    make(tmp_path / "parts", resume="auto").run()
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    assert_same_state(tmp_path / "whole", tmp_path / "parts")


def test_a_training_with_workers_goes_on_with_new_episodes(tmp_path):
    trainer(tmp_path, 3, after=2, normalize_rewards=False).run()
    resumed = trainer(tmp_path, 6, resume="auto", normalize_rewards=False)
    assert resumed.steps == 2 * S
    summary, lines = resumed.run(), metrics(tmp_path)
    assert summary["total_steps"] == 6 * S
    assert [line["step"] for line in lines] == [n * S for n in range(1, 7)]
    assert lines[5]["episode/finished"] > lines[1]["episode/finished"] > 0


def test_the_best_and_evenly_spread_checkpoints_stay(tmp_path):
    """The best by what metrics.jsonl says, however new; also of a run that was stopped."""
    make = partial(
        trainer, tmp_path, make_env=MakeFake(lengths=(1, 2, 3)), serial=True, num_envs=8,
        checkpoint_interval_s=0, keep_checkpoints=1, keep_milestones=3, updates=18,
    )  # fmt: skip
    make(after=7).run()
    summary = make(resume="auto").run()
    lines = {line["step"]: line for line in metrics(tmp_path)}
    size = max(lines) // 18
    saved = [int(path.stem) for path in (tmp_path / "checkpoints").glob("*.json")]
    best = int(Path(summary["best"]["checkpoint"]).stem)
    assert sorted(saved) == sorted({6 * size, 12 * size, 18 * size, best})
    full = [line for line in lines.values() if line["episode/averaged"] >= 52]  # 8 times 13, half
    most = max(line["episode/success"] for line in full)
    assert summary["best"]["metric"] == "episode/success" and summary["best"]["value"] == most
    assert lines[best]["episode/success"] == most


def test_the_best_in_validation_stays_and_counts_more_than_training_episodes(tmp_path):
    """Measured at multiples of `every` and at the end, each once, also of a run that is stopped."""
    values, asked = {3 * S: 0.2, 6 * S: 0.9, 9 * S: 0.4, 10 * S: 0.3}, []

    def measure(checkpoint, step, should_stop):
        assert checkpoint.is_file() and not should_stop()
        asked.append(step)
        return ValidationResult({"validation/success": values[step]}, "validation/success")

    make = partial(
        trainer, tmp_path, updates=10, serial=True, checkpoint_interval_s=0, keep_checkpoints=1,
        keep_milestones=0, validation=Validation(3 * S, measure),
    )  # fmt: skip
    make(after=7).run()
    summary = make(resume="auto").run()
    assert asked == [*values]
    best = tmp_path / f"checkpoints/{6 * S:012d}.json"
    assert summary["best"] == {
        "checkpoint": str(best), "metric": "validation/success", "value": 0.9
    }  # fmt: skip
    kept = {int(path.stem) for path in best.parent.glob("*.json")}
    assert kept == {6 * S, 10 * S}
    lines = [line for line in metrics(tmp_path) if "validation/success" in line]
    assert {line["step"]: line["validation/success"] for line in lines} == values


def test_a_score_is_kept_by_a_run_that_is_over(tmp_path):
    def measure(checkpoint, step, should_stop):
        asked.append(step)
        return ValidationResult({"validation/return": 0.5}, "validation/return")

    asked = []
    make = partial(trainer, tmp_path, serial=True, validation=Validation(9 * S, measure))
    first = make().run()["best"]
    assert make(resume="auto").run()["best"] == first
    assert (first["value"], asked) == (0.5, [2 * S])


def test_a_run_that_is_over_is_validated_once_that_is_asked_for(tmp_path):
    """Its last checkpoint has a score already, of training."""
    measured = []

    def measure(checkpoint, step, should_stop):
        measured.append(step)
        return ValidationResult({"validation/return": 0.5}, "validation/return")

    make = partial(
        trainer, tmp_path, make_env=MakeFake(lengths=(1, 2, 3)), serial=True, num_envs=8, updates=9
    )
    assert make().run()["best"]["metric"] == "episode/success"
    make(resume="auto", validation=Validation(S, measure)).run()
    assert measured == [9 * 8 * T]


def test_an_error_within_an_update_leaves_the_checkpoint_that_was_validated(tmp_path):
    def measure(checkpoint, step, should_stop):
        return ValidationResult({"validation/return": 0.5}, "validation/return")

    make = partial(trainer, tmp_path, serial=True, updates=5, validation=Validation(S, measure))
    breaking = make()
    learn, calls = breaking.algorithm._step, []

    def broken(*args, **kwargs):
        calls.append(None)
        if len(calls) == 10:  # the second of the third update, which has four
            raise FloatingPointError("a loss that is not finite")
        return learn(*args, **kwargs)

    breaking.algorithm._step = broken
    with pytest.raises(FloatingPointError):
        breaking.run()
    kept = load_newest(tmp_path / "checkpoints")
    assert (kept.step, kept.score) == (2 * S, ("validation/return", 0.5))
    assert kept.manifest["optimizer_steps"] == 8
    assert make(resume="auto").run()["total_steps"] == 5 * S


def test_a_validation_that_fails_is_no_score(tmp_path):
    validation = Validation(S, lambda checkpoint, step, should_stop: None)
    assert trainer(tmp_path, serial=True, validation=validation).run()["best"] is None
    assert not any("validation/success" in line for line in metrics(tmp_path))


def test_another_number_of_environments_goes_on(tmp_path):
    trainer(tmp_path, 1, serial=True).run()
    resumed = trainer(tmp_path, 1, serial=True, resume="auto", num_envs=8)
    scaler = resumed.algorithm.scaler
    assert scaler.count == S and scaler.scale < 1.0  # not forgotten
    assert resumed.run()["total_steps"] == S + 8 * T
    resumed = trainer(tmp_path, 2, serial=True, resume="auto", num_envs=8)
    assert resumed.run()["total_steps"] == S + 2 * 8 * T


def test_another_seed_does_not_replay_actions_in_other_episodes(tmp_path):
    make_env = MakeFake()  # its steps refuse to go beyond the episode's end
    trainer(tmp_path, 1, make_env, serial=True, seed=1).run()
    trainer(tmp_path, 2, make_env, serial=True, seed=2, resume="auto").run()
    assert len(metrics(tmp_path)) == 2


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    trainer(tmp_path, 1, serial=True).run()
    wider = PolicyCfg(vector_size=0, hidden_sizes=[17], lstm_layers=0)
    with pytest.raises(UserError, match="does not fit") as caught:
        trainer(tmp_path, 2, serial=True, resume="auto", policy=wider)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="identity"):
        Trainer(
            CART_POLE, lambda *spec: build_policy(*spec, SMALL),
            TrainerCfg(num_envs=E, num_steps=T, device="cpu", resume="auto"), tmp_path,
            identity={"env": "other"},
        )  # fmt: skip


def test_serial_trainings_of_one_seed_are_equal(tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        torch.manual_seed(hash(name) % 1000)
        trainer(tmp_path / name, 2, serial=True, seed=seed).run()
    assert_same_state(tmp_path / "a", tmp_path / "b")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b") != metrics(tmp_path / "c")


@pytest.mark.parametrize(
    "cfg", [CollectorCfg(min_batch=3, max_batch=3), CollectorCfg(num_inference_workers=2)], ids=str
)
def test_serial_trainings_do_not_depend_on_the_clock(tmp_path, cfg):
    """Batches that wait, and threads, are not used."""
    for name in "ab":
        trainer(tmp_path / name, 3, serial=True, collector=cfg).run()
    assert_same_state(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "fast"}, "ver, nover, ddppo, htsrl, async, batched"),
        ({"mode": "batched", "overlap": True}, "in turn"),
        ({"mode": "ver", "start_mode": "staggered"}, "needs start_horizon"),
        ({"num_envs": 3, "num_steps": 5}, "divisible"),
        ({"serial": True, "mode": "htsrl"}, "serial"),
        ({"serial": True, "overlap": True}, "serial"),
        ({"num_envs": 0}, "at least 1"),
        ({"device": "tpu"}, "device"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused_before_anything_starts(tmp_path, settings, message):
    with pytest.raises((ValueError, UserError), match=message) as caught:
        trainer(tmp_path / "run", **settings)
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()
