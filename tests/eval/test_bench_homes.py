"""The benchmark of many homes sees what differs, and judges by its bars."""

import json

import numpy as np
import pytest

from rearrange.configs.benches import BenchHomesCfg
from rearrange.eval.benchmarks.homes import bench_homes


def results(different=0, processor=2.0, memory=2.5):
    one = {"steps_per_s": 1000.0, "to_sync": 1.0, "to_async": 1.0, "processor_s": 3e-4}
    return {
        "equal": {"episodes": 200, "steps": 9000, "different": different},
        "speed": {"homes, 1 thread": one},
        "shares": {"physics": 0.4, "rules, infos and the rest": 0.6},
        "resets": {"clock": 9.0, "processor": processor, "median_s": 0.01},
        "memory_mb": memory, "num_envs": 32, "cores": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "worse, missed",
    [
        ({}, None),
        ({"different": 1}, "steps that differ from single homes"),
        ({"processor": 3.1}, "99% of steps / median"),
        ({"memory": 4.1}, "memory of a further home"),
    ],
)
def test_each_bar_is_missed_for_its_own_reason(worse, missed, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_homes, "measure_homes", lambda cfg: results(**worse))
    output = tmp_path / "homes.json"
    code = bench_homes.run(BenchHomesCfg(output=str(output)))
    assert code == (0 if missed is None else 1)
    bars = json.loads(output.read_text())["bars"]
    assert [name for name, bar in bars.items() if not bar["is_met"]] == ([missed] if missed else [])
    assert capsys.readouterr().out.count("MISSED") == (0 if missed is None else 1)


def test_one_bit_or_another_type_is_a_difference():
    here = (
        {"a": np.array([1.0, 2.0])},
        {"f": np.array([None, "x"], object), "_f": np.ones(2, bool)},
    )
    assert bench_homes.equal(here, ({"a": np.array([1.0, 2.0])}, dict(here[1])))
    for a in (np.array([1.0, np.nextafter(2.0, 3.0)]), np.array([1.0, 2.0], np.float32)):
        assert not bench_homes.equal(here, ({"a": a}, here[1]))
    for f in (["x", None], [None, "y"]):
        other = here[1] | {"f": np.array(f, object)}
        assert not bench_homes.equal(here, (here[0], other))
    assert not bench_homes.equal(here, (here[0], {"f": here[1]["f"]}))


def test_homes_are_compared_over_all_tasks():
    cfg = BenchHomesCfg(num_envs=2, tasks="navigate,open_drawer", episodes=4, threads=[2])
    found = bench_homes.compare(cfg)
    assert found["different"] == 0 and found["episodes"] >= 4
