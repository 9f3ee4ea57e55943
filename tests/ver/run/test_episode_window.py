"""The metrics of a training: the newest episodes of each environment, which weighs as any other."""

import json
import math

import numpy as np
import pytest

from rearrange.ver.run.episode_window import EpisodeWindow


def test_window_holds_the_newest_episodes():
    window = EpisodeWindow(size=3)
    none = {"episode/return": None, "episode/length": None, "episode/success": None}
    assert window.metrics() == none and window.statistics("return") is None
    for episode_return in (100.0, 1.0, 2.0, 6.0):
        window.add(episode_return, length=10, success=episode_return > 1.5)
    assert len(window) == 3 and window.num_finished == 4
    assert window.metrics() == {
        "episode/return": 3.0,
        "episode/length": 10.0,
        "episode/success": 2 / 3,
    }
    std = math.sqrt((4 + 1 + 9) / 3)
    assert window.statistics("return") == {"mean": 3.0, "std": pytest.approx(std), "episodes": 3}


def test_window_leaves_out_what_an_episode_has_not():
    window = EpisodeWindow()
    window.add(1.0, 5, info={"force": 10.0})
    window.add(float("nan"), 5, info={"force": 30.0, "calls": 2})
    window.add(3.0, 5)
    assert window.metrics() == {
        "episode/return": 2.0,
        "episode/length": 5.0,
        "episode/success": None,
        "episode/force": 20.0,
        "episode/calls": 2.0,
    }
    other = EpisodeWindow()
    other.restore(json.loads(json.dumps(window.state(), allow_nan=False)))
    assert other.metrics() == window.metrics() and other.num_finished == 3


def test_each_environment_weighs_the_same_however_quick():
    window = EpisodeWindow(size=8, num_envs=4)
    for env, num_episodes, success in ((0, 50, True), (1, 1, False), (2, 3, False)):
        for _ in range(num_episodes):
            window.add(float(env), 10 * env, success, env=env)
    # the last environment has not finished any
    assert len(window) == 5 and window.num_finished == 54
    assert window.metrics()["episode/success"] == pytest.approx(1 / 3)
    assert window.metrics()["episode/length"] == pytest.approx(10.0)
    known = window.statistics("return")
    assert known == {"mean": 1.0, "std": pytest.approx(math.sqrt(2 / 3)), "episodes": 5}


def test_a_share_of_the_newest_of_each_environment_is_kept():
    window = EpisodeWindow(size=10, num_envs=4)
    assert window.size == 12
    for length in range(1, 8):
        window.add(0.0, length, env=2)
    assert window.metrics()["episode/length"] == 6.0 and len(window) == 3
    assert EpisodeWindow(size=100, num_envs=1000).size == 1000


def test_what_was_cut_short_is_counted_and_not_averaged():
    window = EpisodeWindow()
    window.add(5.0, 3, False, is_whole=False)
    assert window.num_finished == 1 and len(window) == 0
    assert window.metrics()["episode/success"] is None


def test_episodes_of_environments_that_are_no_more_are_left_out():
    window = EpisodeWindow(size=6, num_envs=3)
    for env in range(3):
        for length in (env, env + 10):
            window.add(0.0, length, env=env)
    state = json.loads(json.dumps(window.state()))
    fewer, more = EpisodeWindow(size=6, num_envs=2), EpisodeWindow(size=6, num_envs=6)
    for other in (fewer, more):
        other.restore(state)
        assert other.num_finished == 6
    assert fewer.metrics()["episode/length"] == 5.5
    assert more.metrics()["episode/length"] == 11.0  # the newest one of each


def test_quick_failures_do_not_hide_slow_successes():
    """Half of the environments are failed in 2 steps, half solved in 40: the rate is a half."""
    window, rng = EpisodeWindow(num_envs=10), np.random.default_rng(0)
    ends = sorted(
        (step + rng.random(), env)
        for env in range(10)
        for step in range(2 if env < 5 else 40, 401, 2 if env < 5 else 40)
    )
    for _, env in ends:
        window.add(0.0, 1, env >= 5, env=env)
    assert window.metrics()["episode/success"] == 0.5


def test_returns_that_a_teacher_earns_rank_no_policy():
    """Of 8 environments the policy is alone in 1; with too few that know success none ranks."""
    window = EpisodeWindow(size=16, num_envs=8)
    for episode in range(4):
        for env in range(8):
            window.add(float(episode), 9, env == 0 or None, env=env)
    assert window.statistics("success")["episodes"] == 2 and window.score() is None
    for env in range(1, 4):
        window.add(9.0, 9, False, env=env)
        window.add(9.0, 9, False, env=env)
    assert window.score() == ("episode/success", 0.25)
    without = EpisodeWindow(size=4, num_envs=2)
    for env in (0, 0, 1):
        without.add(2.5, 9, None, env=env)
    assert without.score() == ("episode/return", 2.5)
