"""examples/my_algorithm: an algorithm of somebody else's package, none of ours changed."""

import json
import sys
from pathlib import Path

import pytest

import rearrange
from rearrange.errors import UserError
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.update.algorithm import ALGORITHMS

EXAMPLE = Path(__file__).parents[1] / "examples/my_algorithm"
CART_POLE = {
    "env": "CartPole-v1", "algorithm": "a2c:A2C", "serial": True, "num_envs": 8, "num_steps": 16,
    "seed": 0, "device": "cpu",
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_path(monkeypatch):
    """The example can be imported, and is forgotten in the end."""
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS._entries))
    yield
    sys.modules.pop("a2c", None)


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_it_learns_to_balance(tmp_path):
    rearrange.train(**CART_POLE, total_steps=15_000, run_dir=tmp_path)
    found = [line["episode/return"] for line in lines(tmp_path) if "episode/return" in line]
    assert found[0] < 40.0 and found[-1] > 70.0  # a policy that draws lots falls after 22 steps
    assert "algorithm: A2C" in (tmp_path / "config.yaml").read_text()


def test_stopped_and_gone_on_it_is_bit_for_bit_as_at_one_go(tmp_path):
    settings = CART_POLE | {"schedule": "constant"}
    whole = rearrange.train(**settings, total_steps=1280, run_dir=tmp_path / "whole")
    rearrange.train(**settings, total_steps=640, run_dir=tmp_path / "parts")
    parts = rearrange.train(**settings, total_steps=1280, run_dir=tmp_path / "parts", resume="auto")
    assert whole.total_steps == parts.total_steps == 1280
    one, other = (load_newest(tmp_path / name / "checkpoints") for name in ("whole", "parts"))
    assert any(name.startswith("optimizer/") for name in one.tensors)
    for name, tensor in one.tensors.items():
        assert tensor.numpy().tobytes() == other.tensors[name].numpy().tobytes(), name


def test_its_settings_are_given_by_name_and_a_wrong_one_is_named(tmp_path):
    with pytest.raises(UserError, match="algorithm_kwargs of A2C do not fit: .*learning_speed"):
        rearrange.train(
            **CART_POLE, algorithm_kwargs={"learning_speed": 1.0}, total_steps=128,
            run_dir=tmp_path / "wrong",
        )  # fmt: skip
    rearrange.train(
        **CART_POLE, algorithm_kwargs={"max_reward": 0.5}, total_steps=128, run_dir=tmp_path / "run"
    )
    assert lines(tmp_path / "run")[-1]["step"] == 128
    with pytest.raises(UserError, match="algorithm"):
        rearrange.train(
            **CART_POLE | {"algorithm": "ppo"}, total_steps=256, run_dir=tmp_path / "run",
            resume="auto",
        )  # fmt: skip
