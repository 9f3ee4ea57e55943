"""An evaluation over Ray: the records of the local one, also when a worker is killed."""

import json
import os
from pathlib import Path

import fake_world
import pytest

from rearrange.configs.schema import EvaluateCfg, TaskCfg
from rearrange.eval.chaos_run import processes
from rearrange.eval.evaluate import evaluate

OF_RUNNING = ("wall_time_s", "steps_per_second", "num_workers", "workers_lost")
ROOT = Path(__file__).parents[2]
TASK = TaskCfg(name="fake", title="Fake", stage_skills=[["navigate", "pick"], ["place"]])


def settings(folder, **options):
    return EvaluateCfg(
        task=TASK, num_episodes=9, num_workers=2, output_dir=str(folder),
        renderer=str(folder.parent / f"mark of {folder.name}"), **options,
    )  # fmt: skip


def results(folder):
    summary = json.loads((folder / "summary.json").read_text())
    episodes = (folder / "episodes.jsonl").read_bytes()
    return {name: summary[name] for name in summary if name not in OF_RUNNING}, episodes


def test_ray_gives_the_results_of_the_local_run_though_a_worker_is_killed(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="needs the extra `cluster`")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests/eval")]))
    evaluate(settings(tmp_path / "local"), fake_world.make_world)
    before = set(processes())
    # episode 2 kills its worker once
    summary = evaluate(
        settings(tmp_path / "ray", scheme="ray", address="local"), fake_world.make_dying_world
    )
    assert summary["workers_lost"] == 1 and summary["num_workers"] == 2
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    left = {pid: entry for pid, entry in processes().items() if pid not in before}
    assert not [entry for entry in left.values() if "/ray" in entry[2] or "ray::" in entry[2]]
