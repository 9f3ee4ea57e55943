"""The campaign on stale steps: what is read from runs, what is checked, what is not repeated."""

import json

import gymnasium
import pytest

from rearrange.errors import UserError
from rearrange.eval.benchmarks.campaigns import shared as campaigns
from rearrange.eval.benchmarks.campaigns import stale as campaign_stale  # noqa: F401 (registers its id)
from rearrange.eval.benchmarks.campaigns.stale import FULL, WAYS, Run, parse
from rearrange.workloads import slow_cartpole  # noqa: F401 (registers its id)


def leave_run(one, returns, stale, fresh):
    """Three updates of which the last one was stopped early."""
    one.run_dir.mkdir(exist_ok=True)
    lines = [
        {
            "step": 10 * k, "time_s": 1.0, "episode/return": value, "ver/fraction_stale": stale,
            "ver/preempt_real_steps": fresh, "ver/preempt_share": 0.5,
        }
        for k, value in enumerate([None, *returns])
    ]  # fmt: skip
    (one.run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {"episode_return": {"mean": returns[-1]}, "total_steps": one.total_steps}
    (one.run_dir / "summary.json").write_text(json.dumps(summary))


def fake_training(returns):
    def train(command, **options):
        way = "fill" if WAYS["fill"] in command else "discard"
        seed = next(int(argument[5:]) for argument in command if argument.startswith("seed="))
        run_dir = next(argument[8:] for argument in command if argument.startswith("run_dir="))
        one = Run(way, seed, 100, campaign_stale.Path(run_dir))
        fill = {"stale": 0.25, "fresh": 1.5 * FULL}
        leave_run(
            one, [10.0, returns[way] + seed], **fill if way == "fill" else {"stale": 0, "fresh": 99}
        )
        trained.append(one.run_dir.name)
        return campaigns.subprocess.CompletedProcess(command, 0)

    trained = []
    return train, trained


@pytest.mark.parametrize("fill, code", [(400.0, 0), (100.0, 1)])
def test_fill_has_to_keep_the_batches_and_not_to_be_below_discard(
    tmp_path, monkeypatch, fill, code
):
    train, trained = fake_training({"fill": fill, "discard": 390.0})
    monkeypatch.setattr(campaigns.subprocess, "run", train)
    assert campaign_stale.run(tmp_path, [0, 1], 100) == code
    assert trained == ["fill-0", "discard-0", "fill-1", "discard-1"]
    results = json.loads((tmp_path / "campaign.json").read_text())
    assert results["checks"]["fill: every batch has its full size"]
    assert results["rows"]["fill"]["last"]["mean"] == fill + 0.5
    # 1.5 x FULL of two ranks are fresh, a quarter is not
    assert results["rows"]["fill"]["smallest_batch"]["mean"] == pytest.approx(FULL)
    assert results["rows"]["discard"]["largest_batch"]["mean"] == pytest.approx(99 / 2)
    assert ("NO" in (tmp_path / "campaign.md").read_text()) == bool(code)
    assert campaign_stale.run(tmp_path, [0, 1], 100) == code and len(trained) == 4


def test_a_batch_that_shrinks_fails(tmp_path):
    runs = [Run("fill", 0, 100, tmp_path / "fill-0")]
    leave_run(runs[0], [1.0, 2.0], 0.25, 1.4 * FULL)
    results = campaign_stale.report(runs, tmp_path)
    assert results["checks"] == {"fill: every batch has its full size": False}


@pytest.mark.parametrize("argument", ["seeds=a", "total_steps=1,2", "output", "jobs=2"])
def test_unknown_arguments_are_refused(argument):
    with pytest.raises(UserError):
        parse(["output=a", argument])
    with pytest.raises(UserError, match="output=DIR"):
        parse([])


def test_environments_beyond_the_fast_ones_are_slower():
    options = {"num_fast": 2, "step_s": 0.0, "disable_env_checker": True}
    env = gymnasium.make("SlowCartPole-v1", index=1, **options)
    assert env.spec.max_episode_steps == 500
    env.reset(seed=3)
    assert env.step(1)[1] == 1.0
    slow = gymnasium.make("SlowCartPole-v1", index=2, **options | {"step_s": 0.01})
    fast = gymnasium.make("SlowCartPole-v1", index=1, **options | {"step_s": 0.01})
    assert slow.unwrapped.spec is not None
    assert (slow.env.env._step_s, fast.env.env._step_s) == (pytest.approx(0.03), 0.01)
