"""Starts for training: as plans have them, around something, in more apartments, within reach."""

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.home.house import floor_plan
from rearrange.sim.homes.layout import layout_ids, make_layout
from rearrange.tasks.episodes.generate import generate_episode


def chained(task, count=12):
    return [generate_episode(task, "train", 3, i, starts="chain") for i in range(count)]


def test_half_of_navigates_chained_episodes_begin_before_furniture_and_half_carry_something():
    specs = chained("navigate", 30)
    assert 8 <= sum(spec.start_holding for spec in specs) <= 22
    near = 0
    for spec in specs:
        target = spec.targets[0]
        objects = [placed.pos for placed in spec.scene.objects]
        away = [np.hypot(x - spec.scene.base[0], y - spec.scene.base[1]) for x, y, _ in objects]
        near += min(away) < 0.96
        point = target.goal if spec.start_holding else target.start
        assert np.hypot(*np.subtract(point[:2], spec.scene.base[:2])) > 0.3
    assert near >= 10  # those that begin far away may do so beside something too


def test_what_navigate_carries_it_often_has_just_picked_also_from_drawers_and_the_fridge():
    carrying = [spec for spec in chained("navigate", 48) if spec.start_holding]
    picked = [
        spec.targets[0].start_container
        for spec in carrying
        if np.hypot(*np.subtract(spec.targets[0].start[:2], spec.scene.base[:2])) < 1.0
    ]
    assert len(picked) >= len(carrying) // 5
    assert any(picked) and not all(picked)  # in something, and on something


def at_navigates_end(spec, nearest=0.0):
    """Whether an episode begins where Navigate may stop."""
    point = spec.targets[0].goal if spec.start_holding else spec.targets[0].start
    x, y, yaw = spec.scene.base
    away = np.hypot(point[0] - x, point[1] - y)
    bearing = np.arctan2(point[1] - y, point[0] - x) - yaw
    bearing = abs((bearing + np.pi) % (2 * np.pi) - np.pi)
    return nearest < away < 1.5 and bearing < np.radians(15.01)


@pytest.mark.parametrize("task", ["open_drawer", "open_fridge"])
def test_some_chained_openings_begin_where_navigate_stops(task):
    assert sum(at_navigates_end(spec) for spec in chained(task)) >= 4


@pytest.mark.parametrize("task", ["pick", "place"])
def test_half_of_chained_picks_and_places_begin_where_navigate_stops(task):
    usual = [generate_episode(task, "val", 0, i) for i in range(24)]
    counts = [
        sum(at_navigates_end(spec, 0.5) for spec in specs) for specs in (usual, chained(task, 24))
    ]
    # a ring of 6.3 of 12.6 m2 and a third of the headings, of the others; 3.3 deviations of slack
    assert counts[0] <= 10 and 7 <= counts[1] <= 23
    assert any(stands_against_something(spec) for spec in chained(task, 40))
    assert not any(stands_against_something(spec) for spec in usual)


def stands_against_something(spec):
    """Whether the robot is nearer to furniture than floor plans let it drive."""
    plan = floor_plan(make_layout(spec.scene.layout_id), dict(spec.scene.joints))
    return not plan.is_free(*spec.scene.base[:2])


@pytest.mark.parametrize("task", ["pick", "place"])
def test_two_fifths_of_chained_picks_and_places_have_to_drive_around_something(task):
    def is_barred(spec) -> bool:
        """Whether the robot, pushed straight on, would meet furniture 1 m before the thing."""
        point = np.array((spec.targets[0].goal if task == "place" else spec.targets[0].start)[:2])
        base = np.array(spec.scene.base[:2])
        plan = floor_plan(make_layout(spec.scene.layout_id), dict(spec.scene.joints))
        away = float(np.hypot(*(point - base)))
        steps = np.arange(0.02, away - 0.97, 0.02)[:, None] / away
        return not all(plan.is_free(*spot) for spot in base + steps * (point - base))

    usual = [generate_episode(task, "train", 3, i) for i in range(40)]
    counts = [sum(map(is_barred, specs)) for specs in (usual, chained(task, 40))]
    # of the others a fifth to a quarter; 16 and a few more of 40, by 3.3 deviations of slack
    assert counts[0] <= 19 and 11 <= counts[1] <= 32


@pytest.mark.parametrize(("task", "share"), [("pick", 1 / 6), ("place", 1 / 4)])
def test_some_chained_picks_and_places_begin_anywhere_in_the_home(task, share):
    def away(spec) -> float:
        point = spec.targets[0].goal if task == "place" else spec.targets[0].start
        return float(np.hypot(*np.subtract(point[:2], spec.scene.base[:2])))

    # driven on, an arrival is nowhere farther off than it was drawn: 2 m at most
    far = [spec for spec in chained(task, 60) if away(spec) > 2.01]
    # a sixth or a quarter, less a fifth of them that are near by chance; 3.3 deviations of slack
    assert abs(len(far) - 0.8 * share * 60) < (11 if share > 0.2 else 9)
    assert len(far) >= 1
    assert all(away(spec) < 6.9 for spec in far)  # 6 m of driving to where it is in reach
    assert all(away(generate_episode(task, "train", 3, i)) < 2.01 for i in range(20))


def test_a_tenth_of_chained_fridges_to_open_are_ajar():
    angles = [
        dict(spec.scene.joints).get("fridge_top_door", 0.0) for spec in chained("open_fridge", 48)
    ]
    ajar = [angle for angle in angles if angle > 0.0]
    assert 1 <= len(ajar) <= 12  # mean 4.8; 3.3 deviations of slack
    assert max(ajar) < 1.17  # which would count as open
    assert not any(dict(spec.scene.joints) for spec in chained("open_drawer"))


def test_two_fifths_of_chained_picks_and_places_lead_into_the_fridge():
    picks, places = chained("pick", 48), chained("place", 48)
    from_fridge = sum(spec.targets[0].start_container == "fridge_top_door" for spec in picks)
    into_fridge = sum(spec.targets[0].goal_container == "fridge_top_door" for spec in places)
    # 1/3 + 1/2 * 1/6 of picks (mean 20), 1/4 + 3/4 * 1/6 of places (18); 3.3 deviations of slack
    assert 9 <= from_fridge <= 31 and 7 <= into_fridge <= 29
    for spec in places:
        inside = [spec.targets[0].start_container, spec.targets[0].goal_container]
        assert spec.start_holding and inside.count("fridge_top_door") <= 1
    angles = [spec.scene.joints["fridge_top_door"] for spec in picks + places]
    pushed = [angle for angle in angles if angle != 1.5]
    assert 6 <= len(pushed) <= 34 and 1.2 <= min(pushed) < 1.5 < max(pushed) <= 2.3


def test_a_quarter_of_chained_picks_reach_into_a_drawer_where_things_slid_as_it_was_opened():
    def off(spec) -> np.ndarray:
        """[x, y, z] in m from where the thing is said to be to where it is."""
        target = spec.targets[0]
        return np.subtract(spec.scene.objects[target.object].pos, target.start)

    picks = chained("pick", 48)
    inside = [spec for spec in picks if "drawer" in (spec.targets[0].start_container or "")]
    assert 3 <= len(inside) <= 22  # 1/6 + 1/2 * 1/6: mean 12; 3.3 deviations of slack
    for spec in inside:
        layout = make_layout(spec.scene.layout_id)
        name = spec.targets[0].start_receptacle
        yaw = next(place.yaw for place in layout.receptacles if place.name == name)
        out, aside = off(spec)[:2] @ [[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]]
        assert 0.0 <= out <= 0.06 and abs(aside) < 1e-9 and off(spec)[2] == 0.0
    assert np.ptp([np.linalg.norm(off(spec)) for spec in inside]) > 0.01
    others = [spec for spec in picks if spec not in inside]
    others += [generate_episode("pick", "val", 0, i) for i in range(24)] + chained("place")
    assert not any(off(spec).any() for spec in others)


def test_other_tasks_and_the_task_starts_are_as_ever():
    usual = generate_episode("tidy_house", "val", 0, 2)
    assert generate_episode("tidy_house", "val", 0, 2, "chain") == usual
    for task in ("close_drawer", "tidy_house"):
        assert generate_episode(task, "val", 0, 2, "reach") == generate_episode(task, "val", 0, 2)
    known = "task, chain, varied, driven, reach"
    with pytest.raises(UserError, match=f"starts must be one of {known}; got 'far'"):
        generate_episode("navigate", "val", 0, 0, "far")


@pytest.mark.parametrize("task", ["pick", "place"])
def test_half_of_the_episodes_of_a_beginner_start_within_reach(task):
    def near(starts: str) -> int:
        count = 0
        for i in range(40):
            spec = generate_episode(task, "train", 3, i, starts)
            point = spec.targets[0].goal if task == "place" else spec.targets[0].start
            count += np.hypot(*np.subtract(point[:2], spec.scene.base[:2])) < 0.95
        return count

    # half, and of the others as many as ever: by area a fifth; 3.3 deviations of slack
    assert near("task") <= 16 and near("reach") >= 14


def test_varied_starts_are_chained_ones_in_more_apartments():
    picks = [generate_episode("pick", "train", 3, i, starts="varied") for i in range(40)]
    names = [spec.scene.layout_id for spec in picks if "_staging_" not in spec.scene.layout_id]
    assert 30 <= len(names) <= 40 and len(set(names)) > 25  # 600 of 663 apartments
    assert 8 <= sum("_arranged_" in name for name in names) <= 28
    from_fridge = sum(spec.targets[0].start_container == "fridge_top_door" for spec in picks)
    assert 6 <= from_fridge <= 27  # 5 of 12, as of chained ones; 3.3 deviations of slack
    assert generate_episode("close_fridge", "train", 3, 1, "varied").marker
    val = {generate_episode("pick", "val", 0, i, "varied").scene.layout_id for i in range(12)}
    assert val <= set(layout_ids("val"))  # it has no others
