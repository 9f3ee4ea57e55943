"""What W&B is given, by a module of that name that keeps it; and what is said without one."""

import importlib.util
import sys
import types

import pytest

from rearrange.errors import UserError
from rearrange.ver.run.metrics import RunLog
from rearrange.ver.run.tensorboard import Film
from rearrange.ver.trainer_cfg import TrainerCfg

GIF = b"GIF89a" + bytes(20)


class FakeRun:
    def __init__(self, settings):
        self.settings, self.told, self.config, self.is_over = settings, [], {}, False
        self.config = types.SimpleNamespace(update=self.update)

    def update(self, values, allow_val_change):
        self.shown = values

    def define_metric(self, name, step_metric):
        self.axis = (name, step_metric)

    def log(self, values):
        assert not self.is_over
        self.told.append(values)

    def finish(self):
        self.is_over = True


@pytest.fixture
def runs(monkeypatch):
    """The runs that were begun, in order."""
    begun = []

    def init(**settings):
        begun.append(FakeRun(settings))
        return begun[-1]

    fake = types.ModuleType("wandb")
    fake.init = init
    fake.Video = lambda content, format: (content.read(), format)  # noqa: A006
    fake.__spec__ = importlib.util.spec_from_loader("wandb", None)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return begun


def log(folder, **how):
    return RunLog(folder, 100, is_quiet=True, logger="wandb", **how)


def test_numbers_settings_and_films_are_told_and_the_run_ends(runs, tmp_path):
    settings = {"mode": "ver", "ppo": {"learning_rate": 3e-4}}
    with log(tmp_path / "a", settings=settings) as one:
        one.update({"loss/policy": 0.5, "loss/value": float("nan")}, 64)
        one.show_film(Film("validation/episode", GIF, 40, 30), 64)
    (run,) = runs
    assert run.told == [
        {"loss/policy": 0.5, "step": 64},
        {"validation/episode": (GIF, "gif"), "step": 64},
    ]
    assert run.shown == settings and run.axis == ("*", "step") and run.is_over
    assert (run.settings["name"], run.settings["dir"]) == ("a", str(tmp_path / "a"))
    assert (tmp_path / "a/metrics.jsonl").is_file() and not (tmp_path / "a/tensorboard").exists()


def test_a_folder_goes_on_in_its_run_and_another_has_another(runs, tmp_path):
    for folder in ("a", "a", "b"):
        log(tmp_path / folder).close()
    first, again, other = (run.settings["id"] for run in runs)
    assert first == again != other
    assert {run.settings["resume"] for run in runs} == {"allow"}


def test_a_run_that_cannot_begin_is_one_line(runs, tmp_path, monkeypatch):
    def refuse(**settings):
        raise RuntimeError("no API key configured\nsee the docs")

    monkeypatch.setattr(sys.modules["wandb"], "init", refuse)
    with pytest.raises(UserError) as error:
        log(tmp_path)
    assert "no API key" in str(error.value) and "WANDB_MODE=offline" in str(error.value)
    assert "\n" not in str(error.value)


def test_without_the_package_it_is_said_before_anything_begins(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install wandb"):
        TrainerCfg(logger="wandb")
    with pytest.raises(ValueError, match="one of tensorboard, wandb; got 'mlflow'"):
        TrainerCfg(logger="mlflow")
