"""What is said before a training and after it: hours, memory, a quicker way; what to do next."""

import json
from dataclasses import replace

import pytest

from rearrange.commands.training import forecast as told
from rearrange.commands.training import speeds
from rearrange.commands.training.final_report import what_next
from rearrange.commands.training.forecast import (
    GIB,
    TrainingStage,
    forecast,
    laptop_hours,
    memory_of,
)
from rearrange.commands.training.resolve import chain, load_training
from rearrange.commands.training.training_env import training_env_of

RATES = {"small_ver_camera": 100.0, "small_imitation_blind": 1000.0, "small_ver_blind": 500.0}


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch):
    """Whose steps a second are round numbers; the laptop's stages take an hour."""
    monkeypatch.setattr(told, "usual_rate", lambda cfg: RATES.get(told_key(cfg)))
    monkeypatch.setattr(told, "laptop_hours", lambda skill: 1.0)


def told_key(cfg):
    from rearrange.commands.training.speeds import speed_key

    return speed_key(cfg)


def leg(tmp_path, *overrides, name="ver"):
    return TrainingStage(
        name, load_training("train-skill", [*overrides, f"run_dir={tmp_path}", "device=cpu"])
    )


def test_hours_are_steps_by_rate_and_a_long_training_is_told_of_a_shorter_one(tmp_path):
    text = forecast([leg(tmp_path, "pick", "total_steps=3600000")])
    assert "3,600,000 steps, 10.0 hours at 100 a second" in text
    assert "\nexpected: 10.0 hours" in text
    assert "quicker here: `rearrange train-skills skills=pick`" in text
    assert text.endswith("1.0 hours instead of 10.0 hours")
    assert "quicker" not in forecast([leg(tmp_path, "pick", "total_steps=36000")])
    assert "quicker" not in forecast([leg(tmp_path, "pick", "stage=cells")])


def test_a_network_that_nobody_has_measured_is_said_so(tmp_path):
    text = forecast([leg(tmp_path, "pick", "policy=paper")])
    assert "expected: nobody has measured" in text and "train-skills skills=pick" in text


def test_habitats_workers_are_told_by_what_they_need(tmp_path, monkeypatch):
    """Eight take 540 MiB each, and nobody knows how fast the machine's renderer is."""
    monkeypatch.setattr(told, "usual_rate", speeds.usual_rate)
    words = ["pick", "num_envs=8", "workers.envs_per_worker=1"]
    here = leg(tmp_path, *words).settings
    there = replace(here, backend="habitat")
    monkeypatch.setattr(told, "training_env_of", lambda settings: training_env_of(here))
    assert memory_of(there) - memory_of(here) == 8 * (560 - 250) * 2**20
    text = forecast([TrainingStage("ver", there)])
    assert "expected: nobody has measured this network with Habitat" in text
    assert "quicker" not in text


def test_colour_pictures_cost_their_time(tmp_path):
    table = speeds.speed_table()
    step_s = 1.0 / table["steps_per_second"]["small_ver_camera"]
    costs = table["picture_seconds"]
    assert costs["rgb_plain"] < costs["rgb"]
    for kwargs, cost in (
        ([], 0.0),
        (["env_kwargs.rgb=true"], costs["rgb"]),
        (["env_kwargs.rgb=plain"], costs["rgb_plain"]),
        (["env_kwargs.rgb=true", "env_kwargs.panoptic=true"], costs["rgb"] + costs["panoptic"]),
    ):
        rate = speeds.usual_rate(leg(tmp_path, "pick", *kwargs).settings)
        assert 1.0 / rate == pytest.approx(step_s + cost / 2)  # two cores


def test_a_run_that_goes_on_has_its_own_rate_and_less_left(tmp_path):
    line = {"step": 40_000, "time_s": 100.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    killed = leg(tmp_path, "pick", "total_steps=1440000")  # before its first checkpoint
    assert killed.hours == 1.0 and " done" not in forecast([killed])
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/000000040000.json").write_text("{}")
    found = leg(tmp_path, "pick", "total_steps=1480000")
    assert found.rate == 400.0 and found.hours == 1.0
    assert "1,480,000 steps, 40,000 done, 1.0 hours at 400 a second" in forecast([found])


def test_stages_of_a_chain_add_up_and_total_steps_is_of_the_last(tmp_path):
    overrides = ["pick", "method=imitation_ver", "eyes=true", "total_steps=360000"]
    overrides += ["imitation.total_steps=3600000", "blind_steps=1800000"]
    given = leg(tmp_path, *overrides).settings.given
    all_stages = [TrainingStage(name, cfg) for name, cfg in zip("abc", chain(given), strict=True)]
    assert [one.hours for one in all_stages] == [1.0, 1.0, 1.0]
    text = forecast(all_stages)
    assert text.startswith("pick in 3 stages, total_steps is of the last:\n  1 a  imitation, blind")
    assert "\nexpected: 3.0 hours" in text


def test_memory_grows_by_what_is_remembered(tmp_path, monkeypatch):
    settings = leg(tmp_path, "pick", "stage=cells", "total_steps=10000000").settings
    more = replace(settings, imitation=replace(settings.imitation, memory_rollouts=500), given=None)
    less = replace(settings, imitation=replace(settings.imitation, memory_rollouts=100), given=None)
    # 2,048 steps of 256 cells, 14 more numbers, 4 x 11 of actions, 2 x 2 x 256 of the memory
    step = 4 * (256 + 14 + 44 + 1024) + 80
    assert memory_of(more) - memory_of(less) == pytest.approx(400 * 2048 * step, rel=0.1)
    monkeypatch.setattr(told, "free_memory", lambda: GIB)
    assert ": too little; use a smaller num_envs" in forecast([TrainingStage("cells", more)])


def test_the_laptops_stages_are_what_the_table_says(monkeypatch):
    monkeypatch.setattr(told, "usual_rate", lambda cfg: cfg.total_steps / 360.0)
    assert laptop_hours("close_fridge") == pytest.approx(0.3)  # three trainings


def test_what_to_do_next_names_the_best_checkpoint(tmp_path):
    settings = load_training("train", ["env=CartPole-v1", f"run_dir={tmp_path}"])
    best = {"checkpoint": f"{tmp_path}/checkpoints/000000000064.json"}
    text = what_next(training_env_of(settings), {"best": best}, tmp_path)
    assert f"rearrange evaluate run={best['checkpoint']} num_episodes=100" in text
    assert f"rearrange plot {tmp_path} output={tmp_path}/curves.png" in text
    assert f"export-skill run={best['checkpoint']}" in text and "tensorboard --logdir" in text
