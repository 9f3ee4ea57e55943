"""The benchmark judges by ratios, writes what it says, and runs on the real environment."""

import json

import pytest

from rearrange.configs.benches import BenchCfg
from rearrange.eval.benchmarks.homes import bench_sim


def results(depth=0.5e-3, step=1.0e-3, reset=10e-3, rss=200.0, has_torch=False):
    times = {
        "mj_multiRay": 6.2e-3,
        "depth": depth,
        "env.step of Pick, mean": step,
        "reset of a training episode, median": reset,
    }
    return {
        "times_s": times,
        "ratios_to_mj_multiRay": {name: time / 6.2e-3 for name, time in times.items()},
        "worker": {"rss_mb": rss, "peak_mb": rss, "has_torch": has_torch},
    }


@pytest.mark.parametrize(
    "worse, missed",
    [
        ({}, None),
        ({"depth": 6.2e-3 / 11}, "depth image / mj_multiRay"),
        ({"step": 6.2e-3 / 5}, "env.step of Pick / mj_multiRay"),
        ({"reset": 21e-3}, "reset of a training episode"),
        ({"rss": 251.0}, "memory of a worker"),
        ({"has_torch": True}, "torch in a worker"),
    ],
)
def test_each_bar_is_missed_for_its_own_reason(worse, missed, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_sim, "measure_sim", lambda cfg: results(**worse))
    output = tmp_path / "bench.json"
    code = bench_sim.run(BenchCfg(what="sim", output=str(output)))
    assert code == (0 if missed is None else 1)
    bars = json.loads(output.read_text())["bars"]
    assert [name for name, bar in bars.items() if not bar["is_met"]] == ([missed] if missed else [])
    assert capsys.readouterr().out.count("MISSED") == (0 if missed is None else 1)


@pytest.mark.slow
def test_bench_runs_on_the_real_environment():
    cfg = BenchCfg(what="sim", num_steps=20, num_resets=2, num_images=2)
    measured = bench_sim.measure_sim(cfg)
    json.dumps(measured)
    assert all(time > 0 for time in measured["times_s"].values())
    assert measured["ratios_to_mj_multiRay"]["mj_multiRay"] == 1.0
    assert not measured["worker"]["has_torch"]
    assert 50 < measured["worker"]["rss_mb"] < 250
