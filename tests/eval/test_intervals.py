"""Intervals against hand calculations, exact sums, and their own promise."""

from itertools import product
from math import comb, sqrt

import numpy as np
import pytest

from rearrange.eval.intervals import (
    mean_over_seeds,
    mean_with_interval,
    paired_difference,
    rate_with_interval,
    tango,
    wilson,
)


@pytest.mark.parametrize(("successes", "number"), [(0, 1), (4, 4), (14, 20), (1, 100), (97, 100)])
def test_wilsons_bounds_are_the_rates_that_the_score_test_just_accepts(successes, number):
    """Both solve (share - p)^2 = z^2 p (1 - p) / n; or lie at 0 or 1, where the share does."""
    share = successes / number
    for bound in wilson(successes, number):
        gap = (share - bound) ** 2 - 1.959964**2 * bound * (1.0 - bound) / number
        assert gap == pytest.approx(0.0, abs=1e-12)
    low, high = wilson(successes, number)
    assert 0.0 <= low <= share <= high <= 1.0 and high - low > 0.02


def test_wilson_by_hand():
    # 4 of 4: n / (n + z^2) = 4 / 7.84146; 10 of 40 as the textbooks have it: 0.1419 to 0.4019
    assert wilson(4, 4) == (pytest.approx(0.51011, abs=1e-5), 1.0)
    assert wilson(10, 40) == (pytest.approx(0.14187, abs=1e-5), pytest.approx(0.40194, abs=1e-5))


def test_certainty_is_never_claimed():
    assert rate_with_interval([True] + [False] * 19, range(20), 0)["low"] > 0.0
    for homes in (["a"] * 4, ["a", "b", "c", "d"]):
        assert rate_with_interval([True] * 4, homes, 0)["low"] < 0.52
        assert rate_with_interval([False] * 4, homes, 0)["high"] > 0.48


def test_apartments_are_resampled_whole():
    # Six apartments of different sizes, of which two always fail: all 6^6 draws, weighed alike.
    sizes, rates = [1, 2, 2, 3, 4, 8], [1, 1, 0, 1, 0, 1]
    homes = [name for name, size in enumerate(sizes) for _ in range(size)]
    successes = [bool(rates[home]) for home in homes]
    draws = np.array(list(product(range(6), repeat=6)))
    shares = (np.array(sizes) * rates)[draws].sum(axis=1) / np.array(sizes)[draws].sum(axis=1)
    worth = 0.7 * 0.3 / shares.var()
    assert 4.0 < worth < 7.0  # independent episodes: about as many as apartments, not 20
    figure = rate_with_interval(successes, homes, seed=0)
    assert figure["mean"] == pytest.approx(14 / 20)
    bounds = wilson(0.7 * worth, worth)
    assert (figure["low"], figure["high"]) == pytest.approx(bounds, abs=0.01)
    assert figure == rate_with_interval(successes, homes, seed=0)


def test_apartments_that_do_not_differ_leave_wilsons_interval():
    homes = ["a", "b", "c", "d"] * 5
    successes = [True] * 12 + [False] * 8  # 3 of 5 in each
    figure = rate_with_interval(successes, homes, seed=0)
    assert (figure["low"], figure["high"]) == pytest.approx(wilson(12, 20))


def test_in_a_single_apartment_a_rate_has_wilsons_interval():
    figure = rate_with_interval([True] * 14 + [False] * 6, ["a"] * 20, seed=0)
    assert (figure["low"], figure["high"]) == pytest.approx(wilson(14, 20))


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Of 30 episodes in 10 apartments, each of which has a rate of its own around 0.6."""
    rng = np.random.default_rng(0)
    homes = np.repeat(np.arange(10), 3)
    held, held_by_wilson = 0, 0
    for _ in range(100):
        rates = rng.beta(1.2, 0.8, 10)
        successes = list(rng.random(30) < rates[homes])
        figure = rate_with_interval(successes, homes, seed=0)
        held += figure["low"] <= 0.6 <= figure["high"]
        low, high = wilson(sum(successes), 30)
        held_by_wilson += low <= 0.6 <= high
    assert held >= 90 and held > held_by_wilson


def test_a_mean_in_one_apartment_is_that_of_its_resampled_episodes():
    values = [1.0] * 14 + [0.0] * 6
    figure = mean_with_interval(values, ["a"] * 20, seed=0)
    below, low = 0.0, 0  # resampling draws from the binomial distribution (20, 0.7)
    while below + comb(20, low) * 0.7**low * 0.3 ** (20 - low) < 0.025:
        below += comb(20, low) * 0.7**low * 0.3 ** (20 - low)
        low += 1
    assert figure["low"] == pytest.approx(low / 20)
    assert mean_with_interval([3.0], ["a"], 0) == {"mean": 3.0, "low": None, "high": None}


def test_a_mean_in_several_apartments_is_that_of_the_resampled_apartments():
    # Values 0 to 3, each five times. Of the 4^4 draws of four apartments 5 have a sum below 2 (2%),
    # 15 one of at most 2 (6%): the quantile 0.025 is 2 / 4, and 3 - 2 / 4 on the other side.
    values = [0.0, 1.0, 2.0, 3.0] * 5
    figure = mean_with_interval(values, ["a", "b", "c", "d"] * 5, seed=0)
    assert figure == {"mean": 1.5, "low": 0.5, "high": 2.5}
    apart = mean_with_interval(values, range(20), seed=0)
    assert 0.5 < apart["low"] < 1.5 < apart["high"] < 2.5


def test_a_mean_over_seeds_has_students_interval():
    figure = mean_over_seeds([9.0, 10.0, 11.0])  # s = 1
    assert figure["low"] == pytest.approx(10.0 - 4.303 / sqrt(3))
    assert figure["high"] == pytest.approx(10.0 + 4.303 / sqrt(3))
    assert mean_over_seeds([3.0]) == {"mean": 3.0, "low": None, "high": None}
    values = [0.0, 1.0] * 10  # 20: t = 2.093 in any table
    half = 2.093 * np.std(values, ddof=1) / sqrt(20)
    assert mean_over_seeds(values)["high"] == pytest.approx(0.5 + half, rel=1e-3)


@pytest.mark.parametrize(
    ("gained", "lost", "number"), [(0, 0, 3), (22, 6, 400), (1, 0, 20), (0, 5, 9)]
)
def test_tangos_bounds_are_the_differences_that_the_score_test_just_accepts(gained, lost, number):
    """The variance is that of the likeliest rates with this difference, found on a grid."""
    for difference in tango(gained, lost, number):
        least = max(0.0, -difference)
        losing = np.linspace(least, (1.0 - difference) / 2.0, 400_001)[1:-1]
        gaining, same = losing + difference, 1.0 - 2.0 * losing - difference
        with np.errstate(divide="ignore", invalid="ignore"):
            likelihood = (
                gained * np.log(gaining) + lost * np.log(losing)
                + (number - gained - lost) * np.log(same)
            )  # fmt: skip
        q = losing[np.nanargmax(likelihood)]
        error = sqrt((2.0 * q + difference - difference**2) / number)
        assert abs((gained - lost) / number - difference) == pytest.approx(
            1.959964 * error, rel=1e-3
        )


def test_pairs_of_few_apartments_tell_less_than_independent_ones():
    first, second = [True] * 20 + [False] * 20, [True] * 10 + [False] * 10 + [True] * 20
    apart = paired_difference(first, second, list(range(40)), 0)
    together = paired_difference(first, second, [index // 10 for index in range(40)], 0)
    assert apart["mean"] == together["mean"] == pytest.approx(0.25)
    assert together["low"] < apart["low"] < 0.25 < apart["high"] < together["high"]
