"""Apartments: splits apart from each other, and homes in which everything opens and is reached."""

import hashlib
import subprocess
import sys
from itertools import combinations

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import all_spots, floor_plan
from rearrange.sim.homes.layout import SPLITS, layout_ids, make_layout, varied_layout_ids

ALL = [name for split in SPLITS for name in layout_ids(split)]
VARIED = varied_layout_ids()[::15]


def fingerprint() -> str:
    digest = hashlib.sha256()
    for name in ALL:
        layout = make_layout(name)
        digest.update(repr(sorted(layout.pieces.items())).encode())
        digest.update(layout.walls.tobytes())
    return digest.hexdigest()


def test_there_are_105_apartments_in_habs_splits():
    assert [len(layout_ids(split)) for split in ("train", "val", "test")] == [63, 21, 21]
    assert len(set(ALL)) == 105


def test_splits_share_no_macro_layout():
    macros = {split: {name[:6] for name in layout_ids(split)} for split in SPLITS}
    for a, b in combinations(macros.values(), 2):
        assert not a & b


def test_no_arrangement_of_val_or_test_is_one_of_train():
    """Some piece of furniture stands 2 m or more from its place in every train layout."""

    def places(split):
        return np.array([list(make_layout(n).pieces.values()) for n in layout_ids(split)])[..., :2]

    assert len({tuple(make_layout(name).pieces) for name in ALL}) == 1  # the same order everywhere
    train = places("train")
    for split in ("val", "test"):
        away = np.linalg.norm(places(split)[:, None] - train[None], axis=-1)  # [21, 63, pieces]
        assert away.max(axis=2).min() > 2.0, split


def test_no_two_apartments_are_the_same():
    places = {tuple(np.round(list(make_layout(name).pieces.values()), 4).ravel()) for name in ALL}
    assert len(places) == 105


def test_another_process_makes_the_same_apartments():
    code = """
import hashlib
from rearrange.sim.homes.layout import SPLITS, layout_ids, make_layout
digest = hashlib.sha256()
for split in SPLITS:
    for name in layout_ids(split):
        layout = make_layout(name)
        digest.update(repr(sorted(layout.pieces.items())).encode())
        digest.update(layout.walls.tobytes())
print(digest.hexdigest())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint()


def test_an_unknown_apartment_is_refused():
    with pytest.raises(UserError, match="layout must be named"):
        make_layout("v3_sc5_staging_00")
    with pytest.raises(UserError, match="split must be one of train, val, test"):
        layout_ids("dev")


def test_training_has_many_more_apartments_that_are_none_of_the_benchmarks():
    assert len(set(varied_layout_ids())) == 600 and not set(varied_layout_ids()) & set(ALL)
    assert {name[:6] for name in varied_layout_ids()} == {name[:6] for name in layout_ids("train")}
    turns = {name: [] for name in ("own", "varied")}
    moved = [name for name in VARIED if "_varied_" in name]
    for kind, names in (("own", layout_ids("train")), ("varied", moved)):
        for name in names:
            first = make_layout(name[:6] + "_staging_00").pieces
            off = [make_layout(name).pieces[i][2] - first[i][2] for i in ("chair_1", "chair_2")]
            turns[kind] += list(np.degrees(np.abs(off)))
    assert max(turns["own"]) < 24.01 and max(turns["varied"]) > 36.0


def test_every_home_has_habs_twelve_receptacles_and_the_other_drawers():
    for name in [*ALL, *VARIED]:
        kinds = [r.kind for r in make_layout(name).receptacles]
        assert (kinds.count("open"), kinds.count("fridge"), kinds.count("drawer")) == (8, 1, 7)


def test_furniture_stands_apart_and_inside(sim):
    """Corners of every footprint, in every apartment, lie in the bounds and in no other one."""
    for name in [*ALL, *VARIED]:
        layout = make_layout(name)
        x0, y0, x1, y1 = layout.bounds
        obstacles = layout.obstacles[: len(layout.pieces)]
        for i, (cx, cy, hx, hy, yaw) in enumerate(obstacles):
            c, s = np.cos(yaw), np.sin(yaw)
            for u, v in ((hx, hy), (hx, -hy), (-hx, hy), (-hx, -hy)):
                x, y = cx + c * u - s * v, cy + s * u + c * v
                assert x0 - 0.02 <= x <= x1 + 0.02 and y0 - 0.02 <= y <= y1 + 0.02, (name, i)
                for j, (ox, oy, ohx, ohy, oyaw) in enumerate(layout.obstacles):
                    if i != j:
                        dx, dy = x - ox, y - oy
                        along = abs(np.cos(oyaw) * dx + np.sin(oyaw) * dy)
                        across = abs(np.cos(oyaw) * dy - np.sin(oyaw) * dx)
                        assert along > ohx - 0.025 or across > ohy - 0.025, (name, i, j)


def test_every_receptacle_of_every_home_is_reached_from_free_floor():
    for name in [*ALL, *VARIED]:
        layout = make_layout(name)
        plan = floor_plan(layout, {})
        for receptacle, spots in all_spots(layout, plan).items():
            assert len(spots) >= 3, (name, receptacle)


def test_free_floor_is_one_piece():
    """At least 97% of it belongs to one island, 85% where furniture stands anywhere."""
    for name in [*ALL, *VARIED]:
        plan = floor_plan(make_layout(name), {})
        share = 0.85 if "_arranged_" in name else 0.97
        assert (plan.labels == plan.largest).sum() > share * plan.free.sum(), name


def far_from_kitchen(layout) -> tuple[float, float, float]:
    """The free place farthest from counter and fridge."""
    kitchen = [layout.pieces[name][:2] for name in ("counter", "fridge")]
    points = floor_plan(layout, {}).free_centres
    away = np.min([np.hypot(*(points - place).T) for place in kitchen], axis=0)
    return (*(float(v) for v in points[np.argmax(away)]), 0.0)


def least_gap(sim, joint: str, others: np.ndarray) -> float:
    """Distance (m, looked for up to 5 cm) of a drawer or door to other geoms."""
    model, data = sim.model, sim.data
    gap = 0.05
    for geom in np.flatnonzero(model.geom_bodyid == model.body(joint).id):
        between = np.linalg.norm(data.geom_xpos[others] - data.geom_xpos[geom], axis=1)
        reach = model.geom_rbound[geom] + model.geom_rbound[others] + 0.05
        for other in others[between < reach]:
            gap = min(gap, mujoco.mj_geomDistance(model, data, geom, other, 0.05, None))
    return gap


@pytest.mark.parametrize("macro", range(5))
def test_drawers_and_doors_open_all_the_way(macro, sim, make_scene):
    """Pulled by a force in every home, the robot away: the end is reached and nothing is met.

    The model lets house pass through house, so what a drawer would meet is found by distance.
    """
    model, data = sim.model, sim.data
    for name in (name for name in ALL if name[5] == str(macro)):
        base = far_from_kitchen(make_layout(name))
        for joint in fur.ARTICULATED_JOINTS:
            sim.reset(make_scene(base=base, layout_id=name))
            own = model.geom_bodyid == model.body(joint).parentid[0]
            house = (model.geom_group == 0) & (model.geom_bodyid > 0) & ~own
            others = np.flatnonzero(house & (data.geom_xpos[:, 2] > -5))
            for step in range(128):
                data.qfrc_applied[model.joint(joint).dofadr[0]] = 10.0  # N or N m
                mujoco.mj_step(model, data)
                if step % 16 == 0:
                    assert least_gap(sim, joint, others) > 0.005, (name, joint)
            end = model.joint(joint).range[1]
            assert sim.joint_position(joint) == pytest.approx(end, abs=0.02), (name, joint)


@pytest.mark.parametrize(
    ("drawers", "angle"),
    [(tuple(fur.DRAWERS), 2.0), (("drawer_right_top",), fur.FRIDGE_DOOR_RANGE)],
)
def test_the_fridge_opens_when_drawers_are_open(drawers, angle, sim, make_scene):
    """All of them up to 115 degrees, more than tasks ask for; Set Table's at any angle."""
    bodies = [sim.model.body(name).id for name in drawers]
    geoms = np.flatnonzero(np.isin(sim.model.geom_bodyid, bodies))
    opening = dict.fromkeys(drawers, fur.DRAWER_TRAVEL)
    for name in ALL:
        base = far_from_kitchen(make_layout(name))
        for value in np.linspace(0.0, angle, 9):
            joints = opening | dict.fromkeys(fur.FRIDGE_DOORS, value)
            sim.reset(make_scene(base=base, layout_id=name, joints=joints))
            for door in fur.FRIDGE_DOORS:
                assert least_gap(sim, door, geoms) > 0.0, (name, door, value)


def test_drawers_move_without_touching_counter_or_neighbour(sim, make_scene):
    """Within their own counter they have play on all sides, closed and open."""
    model = sim.model
    counter = np.isin(model.geom_bodyid, [model.body(n).id for n in ("counter", *fur.DRAWERS)])
    for opening in (0.0, 0.25, 0.5):
        for joint in fur.DRAWERS:
            sim.reset(make_scene(joints={joint: opening}))
            others = np.flatnonzero(counter & (model.geom_bodyid != model.body(joint).id))
            assert least_gap(sim, joint, others) > -1e-6, (joint, opening)
