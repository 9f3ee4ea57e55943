"""The campaign on classic tasks: what is repeated, what is met, and how intervals are made."""

import json

import pytest

from rearrange.errors import UserError
from rearrange.eval.benchmarks.campaigns import classic as campaign_classic
from rearrange.eval.benchmarks.campaigns.classic import CampaignCfg, parse
from rearrange.eval.benchmarks.campaigns.shared import finished_summary, first_reached
from rearrange.system.files import write_whole_file

RETURNS = {"serial": 500.0, "ver": 480.0, "ddppo": 490.0}


def leave_run(one, episode_return, stopped_by=None):
    one.run_dir.mkdir(exist_ok=True)
    lines = [
        {"step": step, "time_s": 1.0, "episode/return": value, "episode/finished": finished}
        for step, value, finished in [
            (1, None, 0), (2, 9999.0, 99), (one.total_steps, episode_return, 100)
        ]
    ]  # fmt: skip
    (one.run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {
        "episode_return": {"mean": episode_return, "std": 0.0, "episodes": 100},
        "total_steps": one.total_steps, "wall_time_s": 1.0, "versions": {},
        "stopped_by": stopped_by,
    }  # fmt: skip
    # As a training does it: other runs' summaries are read meanwhile.
    write_whole_file(one.run_dir / "summary.json", json.dumps(summary).encode())


def test_only_what_is_missing_is_run_and_every_seed_counts(monkeypatch, tmp_path):
    trained = []

    def train(one, peer_python):
        trained.append(one.run_dir.name)
        leave_run(one, RETURNS[one.way] + (10.0 if one.seed else -10.0))
        return 0

    monkeypatch.setattr(campaign_classic, "train", train)
    cfg = CampaignCfg(output=tmp_path, tasks=("cartpole",), seeds=(0, 1))
    leave_run(cfg.runs()[0], 500.0)
    leave_run(cfg.runs()[1], 500.0, stopped_by="SIGTERM")
    assert campaign_classic.run(cfg) == 1  # 470 of ver's first seed is below the bar
    expected = ["ver-0", "ddppo-0", "serial-1", "ver-1", "ddppo-1"]
    assert trained == [f"cartpole-{name}" for name in expected]
    checks = json.loads((tmp_path / "campaign.json").read_text())["checks"]
    assert [name for name, is_met in checks.items() if not is_met] == [
        "cartpole ver: every seed reaches 475"
    ]
    assert len(checks) == 5  # three bars; ver beside ddppo at the end and over the training
    assert "| CartPole-v1 | ver | 100000 | 480.0 (" in (tmp_path / "campaign.md").read_text()


def test_a_bar_that_was_reached_once_counts_though_the_end_does_not_keep_it(tmp_path):
    one = CampaignCfg(output=tmp_path, tasks=("cartpole",), ways=("ver",), seeds=(0,)).runs()[0]
    leave_run(one, 480.0)
    with (one.run_dir / "metrics.jsonl").open("a") as file:
        line = {"step": 2 * one.total_steps, "time_s": 2.0, "episode/return": 300.0}
        file.write(json.dumps(line | {"episode/finished": 200}) + "\n")
    assert first_reached(one.run_dir, 475.0) == one.total_steps
    assert first_reached(one.run_dir, 481.0) is None
    row = campaign_classic.write_report([one], tmp_path)["rows"][0]
    assert row["reached"] == [one.total_steps]
    assert "| 480.0 | 480.0 | 100000 |" in (tmp_path / "campaign.md").read_text()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"total_steps": "100"}', "\xff"])
def test_a_summary_that_no_training_wrote_is_named(tmp_path, text):
    (tmp_path / "summary.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"summary\.json must be the summary of a training"):
        finished_summary(tmp_path, 100)
    assert finished_summary(tmp_path / "none", 100) is None


def test_arguments_are_read_or_refused(tmp_path):
    cfg = parse([f"output={tmp_path}", "tasks=pendulum", "ways=serial,sb3", "seeds=4,5", "jobs=2"])
    assert [(one.way, one.seed) for one in cfg.runs()] == [("serial", 4), ("serial", 5)]
    for arguments in ([], ["output=x", "ways=a3c"], ["output=x", "seeds=a"], ["output=x", "lr=1"]):
        with pytest.raises(UserError):
            parse(arguments)
