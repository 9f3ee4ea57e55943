"""The campaign on two ranks beside one: what is trained, what is checked, what is refused."""

import json

import pytest

from rearrange.errors import UserError
from rearrange.eval.benchmarks.campaigns import ranks as campaign_ranks
from rearrange.eval.benchmarks.campaigns import shared as campaigns
from rearrange.eval.benchmarks.campaigns.ranks import Run, parse


def fake_training(returns, trained):
    def train(command, run_dir):
        way = "two" if "torch.distributed.run" in command else "one"
        arguments = dict(argument.split("=", 1) for argument in command if "=" in argument)
        assert int(arguments["num_envs"]) * {"one": 1, "two": 2}[way] == 16
        value = returns[way] + int(arguments["seed"])
        run_dir.mkdir()
        line = {"step": 1, "time_s": 1.0, "episode/return": value}
        (run_dir / "metrics.jsonl").write_text(json.dumps(line) + "\n")
        summary = {
            "episode_return": {"mean": value}, "total_steps": int(arguments["total_steps"]),
            "versions": {}, "stopped_by": None,
        }  # fmt: skip
        (run_dir / "summary.json").write_text(json.dumps(summary))
        trained.append(run_dir.name)
        return 0

    return train


@pytest.mark.parametrize("two, code", [(95.0, 0), (60.0, 1)])
def test_two_ranks_must_not_be_below_one(tmp_path, monkeypatch, two, code):
    trained = []
    monkeypatch.setattr(campaigns, "train", fake_training({"one": 100.0, "two": two}, trained))
    assert campaign_ranks.run(tmp_path, ["cartpole"], [0, 1]) == code
    assert trained == [f"cartpole-{way}-{seed}" for seed in (0, 1) for way in ("one", "two")]
    results = json.loads((tmp_path / "campaign.json").read_text())
    # 100 and 101: 100.5 +- 12.706 x 0.7071 / sqrt(2)
    assert results["rows"]["cartpole"]["one"]["last"]["low"] == pytest.approx(94.147, abs=1e-3)
    assert list(results["checks"].values()) == 2 * [code == 0]
    assert campaign_ranks.run(tmp_path, ["cartpole"], [0, 1]) == code and len(trained) == 4


def test_one_seed_shows_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(campaigns, "train", fake_training({"one": 9.0, "two": 1.0}, []))
    assert campaign_ranks.run(tmp_path, ["pick"], [0]) == 0
    assert json.loads((tmp_path / "campaign.json").read_text())["checks"] == {}
    assert "| pick | two | 100000 | 1.00 | 1.00 | 1.00 |" in (tmp_path / "campaign.md").read_text()


def test_the_commands_differ_in_ranks_only(tmp_path):
    one, two = (Run("pick", way, 0, tmp_path).command()[-10:] for way in ("one", "two"))
    different = [(a, b) for a, b in zip(one, two, strict=True) if a != b]
    assert different == [("num_envs=16", "num_envs=8")]


@pytest.mark.parametrize("argument", ["tasks=sort", "seeds=a", "output", "jobs=2"])
def test_unknown_arguments_are_refused(argument):
    with pytest.raises(UserError):
        parse(["output=a", argument])
    with pytest.raises(UserError, match="output=DIR"):
        parse([])
