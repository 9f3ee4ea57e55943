"""95% intervals of rates and means over episodes, and of means over training seeds.

Episodes of one apartment are correlated, so they carry less information than as many in different
ones. So with several apartments, whole apartments are resampled (cluster bootstrap):

    mean of a resample = sum over drawn apartments of their values / ... of their episodes

A mean's interval lies between quantiles of these. For a rate that would be too narrow (4 successes
of 4: 100 to 100%; 1 of 20: from 0%), so the resamples only give the effective number of independent
episodes, for Wilson's interval (1927):

    m      = min(n, p (1 - p) / variance of the resamples' means)
    centre = (p + z^2 / 2m) / (1 + z^2 / m)
    half   = z sqrt(p (1 - p) / m + z^2 / 4m^2) / (1 + z^2 / m)

With few apartments such intervals are somewhat too narrow.

The same goes for the difference of two rates over the same episodes, which is 0 to 0 wherever no
episode changed. There Tango's score interval (1998) takes Wilson's place.
"""

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np

Z = 1.959964  # quantile 0.975 of the normal distribution
NUM_RESAMPLES = 10_000  # the bounds then move by less than 0.3% between seeds at 100 episodes
# Quantiles 0.975 of Student's t with n - 1 degrees of freedom, from n = 2 (any table of it).
STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def wilson(successes: float, number: float) -> tuple[float, float]:
    """Wilson's interval of a rate of `number` independent trials, of which there must be some."""
    rate, square = successes / number, Z * Z / number
    centre = (rate + square / 2.0) / (1.0 + square)
    half = math.sqrt(rate * (1.0 - rate) * square + square * square / 4.0) / (1.0 + square)
    # min and max: rounding may leave [0, 1]
    return min(max(centre - half, 0.0), rate), max(min(centre + half, 1.0), rate)


def rate_with_interval(
    successes: Sequence[bool], apartments: Sequence[Hashable], seed: int
) -> dict[str, float]:
    """Share of episodes with its interval, {mean, low, high}."""
    sample = np.asarray(successes, np.float64)
    rate = float(sample.mean())
    number = _effective_number(sample, rate * (1.0 - rate), apartments, seed)
    low, high = wilson(rate * number, number)
    return {"mean": rate, "low": low, "high": high}


def paired_difference(
    first: Sequence[bool], second: Sequence[bool], apartments: Sequence[Hashable], seed: int
) -> dict[str, float]:
    """Rate of `second` minus that of `first` over the same episodes, {mean, low, high}."""
    steps = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    mean = float(steps.mean())
    share = _effective_number(steps, float(np.var(steps)), apartments, seed) / len(steps)
    gained, lost = float((steps > 0.0).sum()), float((steps < 0.0).sum())
    low, high = tango(share * gained, share * lost, share * len(steps))
    return {"mean": mean, "low": min(low, mean), "high": max(high, mean)}


def tango(gained: float, lost: float, number: float) -> tuple[float, float]:
    """Tango's score interval of a difference of paired rates.

    `gained` of `number` pairs succeeded only the second time, `lost` only the first.
    """
    mean = (gained - lost) / number

    def score(difference: float) -> float:
        """Standard errors between the mean and a difference, which it falls with."""
        b = -gained - lost + (2.0 * number - gained + lost) * difference
        c = -lost * difference * (1.0 - difference)
        share = (math.sqrt(max(b * b - 8.0 * number * c, 0.0)) - b) / (4.0 * number)
        variance = number * (2.0 * share + difference * (1.0 - difference))
        return (gained - lost - number * difference) / math.sqrt(max(variance, 1e-12))

    return _crossing(score, Z, -1.0, mean), _crossing(score, -Z, mean, 1.0)


def _crossing(score: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a falling function has a value, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if score(middle) > wanted else (low, middle)
    return (low + high) / 2.0


def mean_with_interval(
    values: Sequence[float], apartments: Sequence[Hashable], seed: int
) -> dict[str, float | None]:
    """Mean over episodes with its interval, {mean, low, high}: resampling apartments, or the
    episodes of a single one. A single episode has no interval: None."""
    sample = np.asarray(values, np.float64)
    low = high = None
    if len(sample) > 1:
        clusters = apartments if len(set(apartments)) > 1 else range(len(sample))
        low, high = np.quantile(_resampled(sample, clusters, seed), [0.025, 0.975]).tolist()
    return {"mean": float(sample.mean()), "low": low, "high": high}


def mean_over_seeds(values: Sequence[float]) -> dict[str, float | None]:
    """Mean with Student's interval, {mean, low, high}; of a single value there is none: None."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return {"mean": mean, "low": None, "high": None}
    half = _student_t(n) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _effective_number(
    values: np.ndarray, variance: float, apartments: Sequence[Hashable], seed: int
) -> float:
    """Number of independent values of this variance that tell as much; at most as many."""
    number = float(len(values))
    if len(set(apartments)) > 1:
        spread = float(np.var(_resampled(values, apartments, seed)))
        if spread > variance / number:
            return variance / spread
    return number


def _resampled(values: np.ndarray, clusters: Sequence[Hashable], seed: int) -> np.ndarray:
    """Means of resamples of whole clusters, [NUM_RESAMPLES]."""
    names = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    places = np.array([names[name] for name in clusters])
    sums = np.bincount(places, weights=values)
    sizes = np.bincount(places)
    rng, means = np.random.default_rng(seed), []
    for _ in range(NUM_RESAMPLES // 500):  # 500 at a time bound the memory
        drawn = rng.integers(len(sums), size=(500, len(sums)))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    return np.concatenate(means)


def _student_t(number: int) -> float:
    """Of so many values; beyond the table by its expansion around the normal distribution."""
    if number <= len(STUDENT_T) + 1:
        return STUDENT_T[number - 2]
    free = number - 1
    second = (5.0 * Z**5 + 16.0 * Z**3 + 3.0 * Z) / (96.0 * free**2)
    return Z + (Z**3 + Z) / (4.0 * free) + second
