"""The benchmark of staggered resets judges by its bars, and goes on where it was."""

import json

import numpy as np
import pytest

from rearrange import cli
from rearrange.eval.benchmarks.staggered import bench_staggered

SETTINGS = [
    "num_envs=20",
    "num_updates=3",
    "horizon=20",
    "horizons=10,20",
    "seeds=2",
    "sweep_seeds=1",
]


def test_forgetting_is_the_best_so_far_less_the_present():
    accuracy = np.array([[0.1, 0.5], [0.6, 0.2], [0.4, 0.3]])
    expected = [[0.0, 0.0], [0.0, 0.3], [0.2, 0.2]]
    np.testing.assert_allclose(bench_staggered.forgotten(accuracy), expected)


def results(error=(80.0, 2.5), forgetting=(0.2, 0.01), kept=(0.1, 0.95)):
    def mean(value):
        return {"mean": value, "low": None, "high": None}

    ways = ("naive", "staggered")
    memory = {
        way: {"value_error": mean(error[i]), "forgetting": mean(forgetting[i])}
        for i, way in enumerate(ways)
    }
    horizons = {
        50: {way: {"success": mean(1.0)} for way in ways},
        500: {way: {"success": mean(kept[i])} for i, way in enumerate(ways)},
    }
    return {"memory": memory, "horizons": horizons}


@pytest.mark.parametrize(
    "worse, missed",
    [
        ({}, None),
        ({"error": (20.0, 2.5)}, "largest value error, staggered / naive"),
        ({"forgetting": (0.04, 0.01)}, "forgetting, staggered / naive"),
        ({"kept": (0.1, 0.8)}, "success lost with staggering from H = 50 to 500"),
        ({"kept": (0.95, 0.95)}, "success gained without from H = 50 to 500"),
    ],
)
def test_each_bar_is_missed_for_its_own_reason(worse, missed):
    bars = bench_staggered.criteria_of(results(**worse))
    assert [bar.name for bar in bars if not bar.is_met] == ([missed] if missed else [])


def test_the_command_keeps_what_it_trained_and_writes_table_and_plot(tmp_path, capsys, monkeypatch):
    output, kept = tmp_path / "toy.json", tmp_path / "kept"
    arguments = ["bench", "staggered-resets", *SETTINGS, f"output={output}", f"keep_dir={kept}"]
    assert cli.main(arguments) in (0, 1)  # so short a training learns nothing
    found, printed = json.loads(output.read_text()), capsys.readouterr().out
    assert printed == output.with_suffix(".md").read_text()
    assert printed.count("| 10 |") == printed.count("| 20 |") == 1 and "0.015" in printed
    assert output.with_suffix(".png").stat().st_size > 10_000
    assert np.shape(found["curves"]["naive"]["value_error"]) == (2, 3)
    assert np.shape(found["forgetting"]["staggered"]) == (3, 4)
    assert len(list(kept.iterdir())) == 8

    monkeypatch.setattr(bench_staggered, "train", lambda *_: pytest.fail("trained again"))
    assert cli.main(arguments) in (0, 1)
    assert json.loads(output.read_text())["curves"] == found["curves"]
    capsys.readouterr()
    longer = [argument.replace("num_updates=3", "num_updates=4") for argument in arguments]
    assert cli.main(longer) == 2
    assert "choose another keep_dir" in capsys.readouterr().err


def test_what_is_no_training_is_one_line(tmp_path, capsys):
    (tmp_path / "naive-H20-p0.1-seed0.json").write_text("{}")
    assert cli.main(["bench", "staggered-resets", *SETTINGS, f"keep_dir={tmp_path}"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: ") and "must be a training's figures" in line
