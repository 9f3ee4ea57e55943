"""Factors of the learning rate at points that can be read off a drawing."""

import pytest

from rearrange.ver.update.schedules import SCHEDULES


@pytest.mark.parametrize(
    ("name", "factors"),
    [
        ("cosine", [1.0, 0.75, 0.5, 0.25, 0.0]),
        ("linear", [1.0, 2 / 3, 0.5, 1 / 3, 0.0]),
        ("constant", [1.0] * 5),
    ],
)
def test_schedule_falls_from_one_to_zero(name, factors):
    schedule = SCHEDULES[name]
    progress = [0.0, 1 / 3, 0.5, 2 / 3, 1.0]
    assert [schedule(p) for p in progress] == pytest.approx(factors, abs=1e-12)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_factor_stays_within_bounds_when_the_last_rollout_overshoots(name):
    schedule = SCHEDULES[name]
    assert schedule(1.02) == schedule(1.0) >= 0.0
    assert schedule(-0.1) == schedule(0.0) == 1.0
