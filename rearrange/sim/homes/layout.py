"""Apartments: five macro layouts, each with 21 variations, as data.

Names and split follow HAB on ReplicaCAD (hab-spec 2.1): `v3_sc{M}_staging_{NN}`, M = 0..4, NN =
00..20; train M = 0, 1, 2, validation M = 3, test M = 4. A variation shifts and turns the furniture
of its macro layout and is kept only when the home can be used: all drawers and both fridge doors
have room to open with the robot in front of them, and every receptacle can be reached.

For training there are more, with M of the train split: `v3_sc{M}_varied_{NN}`, whose furniture is
moved and turned several times as far, and `v3_sc{M}_arranged_{NN}`, where everything but the
kitchen stands anywhere (`arrangement`): three macro layouts show too few surroundings of a chair or
a table to learn from. Beside all these there are procedural homes (`procedural`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.home.house import Layout, receptacles_of, usable_spots
from rearrange.sim.homes.arrangement import KITCHEN, arranged
from rearrange.sim.homes.custom import SUFFIX, custom_home
from rearrange.sim.homes.procedural import home_ids, is_home_id, make_home

SPLITS: dict[str, tuple[int, ...]] = {"train": (0, 1, 2), "val": (3,), "test": (4,)}
HAB, PROCEDURAL, MIXED = "hab", "procedural", "mixed"
HOMES = (HAB, PROCEDURAL, MIXED)
NUM_VARIATIONS = 21
NUM_VARIED = 100  # of each macro layout of the train split, and as many that are arranged
VARIED_MOVE, VARIED_TURN = 3.0, 4.0  # times a piece's own bounds
BOUNDS = (0.0, 0.0, 9.0, 7.0)  # m, inside of the outer walls
_WALL = 0.05  # m, half thickness
MAX_TRIES = 200

# piece: (x, y, yaw in degrees, along, across, turn): the last three bound its jitter: m along its
# own y, m along its own x, degrees. Furniture with its back to a wall does not move across.
_Pose = tuple[float, float, float, float, float, float]
_MACROS: tuple[dict[str, _Pose], ...] = (
    {
        "counter": (2.0, 6.68, -90, 0.12, 0, 0), "fridge": (4.2, 6.66, -90, 0.1, 0, 0),
        "island": (2.2, 4.35, -90, 0.15, 0.08, 3), "table_01": (7.3, 5.0, 0, 0.1, 0.1, 4),
        "chair_1": (7.3, 6.3, -90, 0.08, 0.06, 12), "chair_2": (7.3, 3.7, 90, 0.08, 0.06, 12),
        "sofa": (2.4, 0.5, 90, 0.2, 0, 0), "table_02": (2.4, 2.15, 90, 0.15, 0.08, 6),
        "tvstand": (0.27, 2.5, 0, 0.2, 0, 0), "chest": (8.74, 2.2, 180, 0.3, 0, 0),
        "shelf": (8.8, 0.9, 180, 0.2, 0, 0), "chair_0": (5.0, 0.6, 90, 0.25, 0.05, 12),
        "chair_3": (6.3, 0.6, 90, 0.2, 0.05, 12), "plant": (8.7, 6.7, 0, 0.04, 0.04, 0),
    },
    {
        "counter": (8.68, 2.0, 180, 0.12, 0, 0), "fridge": (8.66, 4.25, 180, 0.1, 0, 0),
        "island": (6.35, 2.0, 180, 0.15, 0.08, 3), "table_01": (4.6, 5.4, 90, 0.1, 0.1, 4),
        "chair_1": (3.45, 5.4, 0, 0.08, 0.06, 12), "chair_2": (5.75, 5.4, 180, 0.08, 0.06, 12),
        "sofa": (0.47, 1.8, 0, 0.2, 0, 0), "table_02": (2.1, 1.8, 0, 0.15, 0.08, 6),
        "tvstand": (4.1, 0.27, 90, 0.2, 0, 0), "chest": (1.0, 6.74, -90, 0.2, 0, 0),
        "shelf": (2.3, 6.8, -90, 0.15, 0, 0), "chair_0": (0.5, 5.1, 0, 0.15, 0.05, 12),
        "chair_3": (7.2, 6.6, -90, 0.2, 0.05, 12), "plant": (8.7, 6.7, 0, 0.04, 0.04, 0),
    },
    {
        "counter": (0.32, 4.6, 0, 0.12, 0, 0), "fridge": (0.34, 2.55, 0, 0.1, 0, 0),
        "island": (2.6, 4.7, 0, 0.15, 0.08, 3), "table_01": (3.3, 1.3, 90, 0.1, 0.1, 4),
        "chair_1": (2.15, 1.1, 0, 0.08, 0.06, 12), "chair_2": (4.45, 1.3, 180, 0.08, 0.06, 12),
        "sofa": (7.0, 6.5, -90, 0.2, 0, 0), "table_02": (7.0, 4.85, -90, 0.15, 0.08, 6),
        "tvstand": (7.0, 0.27, 90, 0.25, 0, 0), "chest": (8.74, 2.6, 180, 0.2, 0, 0),
        "shelf": (5.3, 0.2, 90, 0.1, 0, 0), "chair_0": (8.5, 4.2, 180, 0.1, 0.05, 12),
        "chair_3": (0.5, 0.5, 0, 0.06, 0.05, 12), "plant": (5.3, 6.6, 0, 0.06, 0.06, 0),
    },
    {
        "counter": (3.2, 0.32, 90, 0.12, 0, 0), "fridge": (5.35, 0.34, 90, 0.1, 0, 0),
        "island": (3.45, 2.65, 90, 0.15, 0.06, 3), "table_01": (1.9, 4.5, 0, 0.1, 0.1, 4),
        "chair_1": (1.9, 3.25, 90, 0.08, 0.06, 12), "chair_2": (1.9, 5.75, -90, 0.08, 0.06, 12),
        "sofa": (6.4, 6.5, -90, 0.2, 0, 0), "table_02": (6.4, 4.85, -90, 0.15, 0.08, 6),
        "tvstand": (8.73, 4.0, 180, 0.2, 0, 0), "chest": (0.26, 6.2, 0, 0.15, 0, 0),
        "shelf": (0.2, 1.6, 0, 0.15, 0, 0), "chair_0": (8.5, 1.7, 180, 0.15, 0.05, 12),
        "chair_3": (7.5, 0.5, 90, 0.1, 0.05, 12), "plant": (8.7, 6.7, 0, 0.04, 0.04, 0),
    },
    {
        "counter": (6.6, 6.68, -90, 0.12, 0, 0), "fridge": (4.5, 6.66, -90, 0.1, 0, 0),
        "island": (6.4, 4.45, -90, 0.15, 0.06, 3), "table_01": (7.3, 2.5, 90, 0.1, 0.08, 4),
        "chair_1": (6.15, 2.5, 0, 0.08, 0.06, 12), "chair_2": (8.5, 2.5, 180, 0.08, 0.04, 12),
        "sofa": (0.47, 2.8, 0, 0.2, 0, 0), "table_02": (2.1, 2.8, 0, 0.15, 0.08, 6),
        "tvstand": (4.5, 2.6, 180, 0.15, 0.1, 3), "chest": (2.4, 6.74, -90, 0.2, 0, 0),
        "shelf": (1.0, 6.8, -90, 0.2, 0, 0), "chair_0": (0.7, 0.6, 45, 0.1, 0.05, 12),
        "chair_3": (3.2, 0.5, 90, 0.2, 0.05, 12), "plant": (8.7, 0.35, 0, 0.04, 0.04, 0),
    },
)  # fmt: skip
# Inner walls: (x0, y0, x1, y1) m.
_INNER_WALLS: tuple[tuple[tuple[float, float, float, float], ...], ...] = (
    ((5.7, 7.0, 5.7, 4.9),),
    ((0.0, 3.75, 2.4, 3.75), (6.6, 7.0, 6.6, 6.0)),
    ((4.7, 7.0, 4.7, 3.7), (6.0, 0.0, 6.0, 0.9)),
    ((6.7, 0.0, 6.7, 2.1), (0.0, 2.3, 0.9, 2.3)),
    ((3.4, 7.0, 3.4, 4.8), (5.3, 0.0, 5.3, 1.2)),
)


def layout_ids(split: str, homes: str = HAB) -> tuple[str, ...]:
    """Names of the apartments of a split. Raises UserError for an unknown split or set of homes."""
    if split not in SPLITS:
        raise UserError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    check_homes(homes)
    if homes.endswith(SUFFIX):
        return (homes,)
    return _listed(split, homes)


@lru_cache(maxsize=len(SPLITS) * len(HOMES))
def _listed(split: str, homes: str) -> tuple[str, ...]:
    staged = tuple(
        f"v3_sc{macro}_staging_{variation:02d}"
        for macro in SPLITS[split]
        for variation in range(NUM_VARIATIONS)
    )
    return {HAB: staged, PROCEDURAL: home_ids(split), MIXED: staged + home_ids(split)}[homes]


def check_homes(homes: str) -> str:
    """The digest of a home's file as it is now, empty for a set of homes.

    A file's name ends in .json and is the name of the home in it, in every split.

    Raises UserError for anything but a set of homes or a valid file of one.
    """
    if isinstance(homes, str) and homes.endswith(SUFFIX):
        return custom_home(homes).layout.digest
    if homes not in HOMES:
        known = ", ".join(HOMES)
        raise UserError(f"homes must be one of {known}, or a file of a home (.json); got {homes!r}")
    return ""


def check_unchanged(homes: str, digest: str, what: str) -> None:
    """Raises UserError if a home's file is not the one of that digest any more.

    Args:
        what: was made for that home, in words.
    """
    if check_homes(homes) != digest:
        raise _changed(homes, what)


def _changed(home: str, what: str) -> UserError:
    return UserError(
        f"{home} has changed since {what} was made: put the old file back or make anew"
    )


def homes_of(layout_id: str) -> str:
    """The set of homes that a name belongs to."""
    if layout_id.endswith(SUFFIX):
        return layout_id
    return PROCEDURAL if layout_id.startswith(PROCEDURAL) else HAB


def varied_layout_ids() -> tuple[str, ...]:
    """Names of the apartments that are for training alone."""
    return tuple(
        f"v3_sc{macro}_{kind}_{number:02d}"
        for kind in ("varied", "arranged")
        for macro in SPLITS["train"]
        for number in range(NUM_VARIED)
    )


def make_layout(layout_id: str, digest: str = "") -> Layout:
    """The apartment called `layout_id`; the same numbers at every call and in every process.

    Args:
        digest: of the file that it must be from, if that is known.

    Raises UserError for an unknown name, a file that is no home, or one of another digest.
    """
    layout = _layout(layout_id)
    if digest and digest != layout.digest:
        raise _changed(layout_id, "the episode")
    return layout


def _layout(layout_id: str) -> Layout:
    if layout_id.endswith(SUFFIX):
        return custom_home(layout_id).layout
    if is_home_id(layout_id):
        return make_home(layout_id).layout
    return _found(layout_id)[0]


def layout_spots(layout_id: str) -> Mapping[str, np.ndarray]:
    """`all_spots` of an apartment, all doors and drawers closed."""
    if layout_id.endswith(SUFFIX):
        return custom_home(layout_id).spots
    if is_home_id(layout_id):
        return make_home(layout_id).spots
    return _found(layout_id)[1]


@lru_cache(maxsize=1024)  # all there are: 14 MiB
def _found(layout_id: str) -> tuple[Layout, dict[str, np.ndarray]]:
    known = {name for split in SPLITS for name in layout_ids(split)}
    if layout_id not in known and layout_id not in varied_layout_ids():
        raise UserError(
            "layout must be named v3_sc0_staging_00 .. v3_sc4_staging_20 or "
            f"procedural_train_0000 .. procedural_test_0099; got {layout_id!r}"
        )
    macro, kind, variation = int(layout_id[5]), layout_id.split("_")[2], int(layout_id[-2:])
    streams = {"staging": [], "varied": [1], "arranged": [2]}
    rng = np.random.default_rng([macro, variation, 7, *streams[kind]])
    move, turn = (VARIED_MOVE, VARIED_TURN) if kind == "varied" else (1.0, 1.0)
    for _ in range(MAX_TRIES):
        layout = _sample(layout_id, macro, rng, move, turn, kind == "arranged")
        if layout is not None and (spots := usable_spots(layout)) is not None:
            return layout, spots
    raise RuntimeError(f"no workable variation of macro layout {macro} found for {layout_id}")


def _sample(
    layout_id: str, macro: int, rng: np.random.Generator, moves: float, turns: float,
    is_arranged: bool,
) -> Layout | None:  # fmt: skip
    pieces = {}
    for name, (x, y, yaw_deg, along, across, turn) in _MACROS[macro].items():
        jitter = rng.uniform(-1, 1, 3)
        pose = (x, y, float(np.deg2rad(yaw_deg + turns * turn * jitter[2])))
        x, y = piece_to_world(pose, moves * across * jitter[1], moves * along * jitter[0])
        pieces[name] = (x, y, pose[2])
    x0, y0, x1, y1 = BOUNDS
    walls = [
        ((x0 + x1) / 2, y0 - _WALL, (x1 - x0) / 2 + 2 * _WALL, _WALL, 0.0),
        ((x0 + x1) / 2, y1 + _WALL, (x1 - x0) / 2 + 2 * _WALL, _WALL, 0.0),
        (x0 - _WALL, (y0 + y1) / 2, _WALL, (y1 - y0) / 2, 0.0),
        (x1 + _WALL, (y0 + y1) / 2, _WALL, (y1 - y0) / 2, 0.0),
    ]
    for ax, ay, bx, by in _INNER_WALLS[macro]:
        walls.append(
            ((ax + bx) / 2, (ay + by) / 2, abs(bx - ax) / 2 + _WALL, abs(by - ay) / 2 + _WALL, 0.0)
        )
    if is_arranged:
        kitchen = {name: pieces[name] for name in KITCHEN}
        found = arranged(kitchen, np.array(walls), BOUNDS, rng)
        if found is None:
            return None
        pieces = {name: found[name] for name in pieces}
    receptacles = receptacles_of(pieces, fur.PIECES)
    return Layout(layout_id, BOUNDS, pieces, np.array(walls), receptacles)
