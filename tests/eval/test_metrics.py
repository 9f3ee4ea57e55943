"""The figures against hand calculations."""

from dataclasses import replace

import pytest

from rearrange.eval.metrics import (
    by_layout,
    failure_counts,
    failure_places,
    product_bound,
    skill_counts,
    stage_success,
    summarise,
)
from rearrange.eval.runner import EpisodeRecord


def record(index, success, stages, attempts=(), failure=None, scene="a"):
    return EpisodeRecord(
        index=index,
        scene=scene,
        success=success,
        stages=stages,
        failure=failure,
        steps=10 * (index + 1),
        force=1.0,
        path_length=2.0,
        attempts=list(attempts),
    )


def test_stages_keep_the_order_of_the_task():
    records = [
        record(0, True, {"stage_0_5": True, "stage_1": True}),
        record(1, False, {"stage_0_5": True, "stage_1": False}),
    ]
    stages = stage_success(records, seed=0)
    assert [(stage["name"], stage["mean"]) for stage in stages] == [
        ("stage_0_5", 1.0),
        ("stage_1", 0.5),
    ]


def test_product_bound_multiplies_the_skills_up_to_a_stage():
    records = [
        record(0, True, {}, [("pick", False), ("pick", True), ("navigate", True)]),  # a retry
        record(1, True, {}, [("pick", True), ("pick", True), ("navigate", True)]),
        record(2, False, {}, [("navigate", True), ("pick", False), ("pick", False)]),  # given up
    ]
    assert skill_counts(records) == {
        "navigate": {"attempts": 3, "successes": 3},
        "pick": {"attempts": 6, "successes": 3},
    }
    stages = [["navigate", "pick"], ["navigate", "pick"], ["place"], ["pick"]]
    assert product_bound(stages, records) == [0.75, 0.75**2, None, None]  # 3 worked, 1 given up


def test_failures_and_apartments_are_counted():
    records = [
        record(0, True, {}),
        record(1, False, {}, failure="b", scene="z"),
        record(2, False, {}, failure="b"),
        record(3, False, {}, failure="a"),
    ]
    assert list(failure_counts(records).items()) == [("b", 2), ("a", 1)]
    first, last = by_layout(records)
    assert (first["scene"], first["num_episodes"], first["success"]) == (
        "a",
        3,
        pytest.approx(1 / 3),
    )
    assert first["steps"] == pytest.approx((10 + 30 + 40) / 3)
    assert (last["scene"], last["num_episodes"]) == ("z", 1)


def test_failures_stand_at_the_first_stage_that_was_missed():
    stages = [{"a": True, "b": False}, {"a": False, "b": False}, {"a": True, "b": True}]
    records = [
        record(0, False, stages[0], failure="place(x): out of time", scene="one"),
        record(1, False, stages[0], failure="place(x): out of time", scene="two"),
        record(2, False, stages[1], failure="force", scene="one"),
        record(3, False, stages[2], failure="time_limit", scene="two"),
        record(4, True, stages[2], scene="two"),
    ]
    assert failure_places(records) == [
        {"stage": "a", "failure": "force", "num_episodes": 1, "scenes": {"one": 1}},
        {
            "stage": "b", "failure": "place(x): out of time", "num_episodes": 2,
            "scenes": {"one": 1, "two": 1},
        },
        {"stage": "stop", "failure": "time_limit", "num_episodes": 1, "scenes": {"two": 1}},
    ]  # fmt: skip


def test_forces_and_ways_are_averaged_each_by_itself():
    records = [
        replace(record(i, True, {}), force=force, path_length=metres)
        for i, (force, metres) in enumerate([(100.0, 2.0), (300.0, 3.0), (800.0, 7.0)])
    ]
    figures = summarise(records, [], seed=0)
    assert figures["force"]["mean"] == 400.0 and figures["path_length"]["mean"] == 4.0
    assert figures["force"]["low"] >= 100.0 and figures["path_length"]["high"] <= 7.0
