"""The slope of a soak against numbers that are known."""

import numpy as np
import pytest

from rearrange.configs.benches import ChaosCfg
from rearrange.eval.benchmarks.soak.kills import account
from rearrange.eval.benchmarks.soak.soak import fit_slope

TIMES = np.arange(0.0, 3600.0, 2.0)


def test_a_straight_line_has_its_slope_and_no_interval():
    slope = fit_slope(TIMES, 100.0 + 5.0 * TIMES / 3600.0)
    assert slope.per_hour == pytest.approx(5.0) and slope.half_width < 1e-9


def test_the_interval_holds_the_true_slope_95_times_in_100():
    rng = np.random.default_rng(0)
    fits = [fit_slope(TIMES, 3.0 * TIMES / 3600.0 + rng.normal(size=1800)) for _ in range(400)]
    held = np.mean([abs(fit.per_hour - 3.0) <= fit.half_width for fit in fits])
    assert abs(held - 0.95) < 0.035  # 3 standard errors of 400 trials


def test_an_account_names_what_is_doubled_lost_or_forgotten():
    def lines(*rows):
        names = ("step", "ver/preempt_real_steps", "episode/finished")
        return [dict(zip(names, row, strict=True)) for row in rows]

    assert account(lines((512, 512, 3), (900, 388, 3), (1412, 512, 9))) == []
    assert account(lines((512, 512, 3), (512, 512, 3))) == [
        "step 512 and 512 more gave 512", "step 512 after 512",
    ]  # fmt: skip
    assert account(lines((512, 512, 3), (1536, 512, 3))) == ["step 512 and 512 more gave 1536"]
    assert account(lines((512, 512, 3), (1024, 512, 2))) == ["episodes fell from 3 at step 1024"]


def test_a_soak_too_short_for_a_slope_is_refused():
    with pytest.raises(ValueError, match="soak_minutes must be 0 or at least 1, got 0.5"):
        ChaosCfg(soak_minutes=0.5)
    assert ChaosCfg(soak_minutes=1.0).soak_minutes == 1.0
