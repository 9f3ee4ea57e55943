"""No behaviour breaks the home. The long version: `python -m rearrange.tasks.stress`."""

import pytest

from rearrange.tasks.stress import main, stress


def is_clean(figures):
    return not any(figures[k] for k in ("nan", "mujoco_warnings", "out_of_space", "exceptions"))


def test_a_few_thousand_steps_of_nonsense_in_every_task():
    figures = stress(num_steps=6000, seed=1, camera_size=16)
    assert figures["steps"] >= 5500 and is_clean(figures), figures
    memory = figures["resident_mb"]
    assert memory["end"] - memory["after_first_task"] < 80, memory


@pytest.mark.slow
def test_a_hundred_thousand():
    figures = stress(num_steps=100_000)
    assert is_clean(figures), figures


def test_the_command_prints_its_figures(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["stress", "--steps", "42"])
    assert main() == 0
    assert '"steps": 42' in capsys.readouterr().out
