"""The chosen S beside the best of all S, on timings of which the answer is known."""

import numpy as np
import pytest

from rearrange.eval.benchmarks.scaling.preemption_check import (
    Draw,
    best_throughput,
    check,
    draw,
    score,
    throughput,
)


def test_throughput_is_that_of_a_rollout_counted_by_hand():
    rollout = [np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 9.0])]
    assert throughput(rollout, 4.0, 1.0) == pytest.approx(5 / 5.0)  # stopped at 4 s
    assert throughput(rollout, 99.0, 1.0) == pytest.approx(6 / 10.0)  # all have finished at 9 s
    # 1/2, 3/3, 4/4, 5/5, 6/10
    assert best_throughput(rollout, 1.0) == pytest.approx(1.0)


def test_a_rollout_like_the_last_one_gets_the_best_choice_and_another_one_less():
    fast, slow = np.arange(1.0, 9.0), 10.0 * np.arange(1.0, 9.0)
    drawn = Draw([[fast, slow], [slow, fast]], [np.array([1.0]), np.array([10.0])], 1.0, 8)
    assert score(drawn) == pytest.approx((1.0, 1.0, 1.0))
    drawn = Draw([[fast, fast], [slow, slow]], [np.array([1.0]), np.array([1.0])], 1.0, 8)
    assert score(drawn)[:2] == pytest.approx((1.0, 1.0))
    assert score(drawn).next == pytest.approx(0.0)  # nobody had a step by then


def test_draws_are_whole_rollouts_of_ranks_that_differ():
    drawn = draw(np.random.default_rng(5))
    again = draw(np.random.default_rng(5))
    assert len(drawn.step_s) == len(drawn.rollouts[0]) == len(drawn.rollouts[1]) > 1
    for rollout, same in zip(drawn.rollouts, again.rollouts, strict=True):
        for ends, same_ends in zip(rollout, same, strict=True):
            assert len(ends) == drawn.quota and (np.diff(ends) >= 0.0).all() and ends[0] >= 0.0
            assert (ends == same_ends).all()
    for ends, step_s in zip(drawn.rollouts[0], drawn.step_s, strict=True):
        # at their mean pace the environments have given all steps, and begun others
        assert (ends[-1] / step_s).sum() >= drawn.quota - 1e-6 and (step_s <= ends[-1]).all()


def test_the_choice_reaches_97_percent_of_the_best():
    scores = check(40, seed=0)
    assert scores["means"]["worst"] >= 0.97  # on the very timings it was made from
    assert scores["same"]["mean"] >= 0.97 and scores["next"]["mean"] >= 0.97
    assert all(0.0 < s["worst"] <= s["low"] <= s["mean"] <= 1.0 for s in scores.values())
