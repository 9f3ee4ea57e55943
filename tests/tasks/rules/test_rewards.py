"""Reward terms, and the part of every task that is the same."""

import pytest

from rearrange.tasks.rules.names import TASKS
from rearrange.tasks.rules.rewards import Progress, force_penalty
from rearrange.tasks.rules.rulebook import make_task


def test_force_penalty_is_capped():
    assert force_penalty(50.0, 1e-4, 0.01) == pytest.approx(0.005)
    assert force_penalty(5000.0, 1e-4, 0.01) == 0.01
    assert force_penalty(0.0, 1e-4, 0.01) == 0.0


def test_progress_sums_to_the_way_made_good():
    progress = Progress()
    assert sum(progress.step(d) for d in (3.0, 2.5, 2.75, 1.0)) == pytest.approx(2.0)
    progress.forget()
    assert progress.step(9.0) == 0.0


def test_rounded_progress_ignores_trembling():
    progress = Progress(decimals=3)
    progress.step(1.0)
    assert progress.step(0.9996) == 0.0
    assert progress.step(0.9976) == pytest.approx(0.002)


def test_time_limits_and_force_limits():
    """hab-spec 4.3 to 4.6; the long tasks have the limits of Habitat-lab 0.2.2."""
    limits = {name: make_task(name).rules.max_episode_steps for name in TASKS}
    assert limits == {
        "tidy_house": 5000, "prepare_groceries": 4000, "set_table": 4500, "tidy_house_easy": 2000,
        "prepare_groceries_easy": 1500, "set_table_easy": 2500, "rearrange_easy": 3000,
        "navigate": 400, "pick": 300, "place": 300, "open_drawer": 200, "close_drawer": 200,
        "open_fridge": 200, "close_fridge": 200,
    }  # fmt: skip
    forces = {name: make_task(name).rules for name in TASKS}
    assert forces["pick"].max_accum == forces["navigate"].max_instant == 10_000.0
    assert forces["open_fridge"].max_accum == 20_000.0
    assert forces["open_drawer"].max_accum == forces["close_fridge"].max_instant == float("inf")
    assert forces["set_table"].max_accum == 100_000.0


def begin(name, sim, episode):
    task = make_task(name)
    marker = {"open_drawer": "cab_push_point_5", "open_fridge": "fridge_push_point"}.get(name)
    task.start(sim, episode(name, num_targets=min(task.num_targets, 2), marker=marker))
    return task


@pytest.mark.parametrize("is_stop", [False, True])
@pytest.mark.parametrize(
    "name, reward",
    [
        ("pick", -1.005),
        ("navigate", -1.005),
        ("tidy_house", -10.01),
        ("open_drawer", -10.0),
        ("open_fridge", -10.0),
    ],
)
def test_too_much_force_ends_the_episode_as_a_failure(sim, episode, name, reward, is_stop):
    task = begin(name, sim, episode)
    sim.force_instant = 10_001.0
    outcome = task.step(sim, is_stop)
    assert outcome[1:] == (False, True, "force")
    assert outcome.reward == pytest.approx(reward)


@pytest.mark.parametrize("is_broken, failure", [(False, "wrong_object"), (True, "hold_violation")])
def test_a_mishap_says_why_an_episode_failed_also_on_the_stop(sim, episode, is_broken, failure):
    task = begin("open_drawer", sim, episode)
    sim.held_object, sim.hold_violation = 1, is_broken
    assert task.step(sim, True)[1:] == (False, True, failure)
