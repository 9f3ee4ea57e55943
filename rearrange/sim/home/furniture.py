"""Furniture: each piece in its own frame, with its boxes and the surfaces that hold objects.

A piece's frame has its origin on the floor in the middle of the footprint; +x is the front, the
side that is used. Lengths in metres. Which receptacles there are and what they are called is taken
from ReplicaCAD as HAB uses it; the dimensions are ours (usual furniture sizes within the reach of
Fetch's arm).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

WOOD = (0.62, 0.47, 0.33)
DARK_WOOD = (0.38, 0.28, 0.21)
WHITE = (0.86, 0.86, 0.84)
STONE = (0.52, 0.53, 0.55)
STEEL = (0.72, 0.74, 0.77)
FABRIC = (0.36, 0.45, 0.53)
GREEN = (0.28, 0.48, 0.27)


@dataclass(frozen=True)
class Box:
    """A box: centre and half sizes in the piece's frame."""

    pos: tuple[float, float, float]
    half: tuple[float, float, float]
    rgb: tuple[float, float, float] = WOOD


@dataclass(frozen=True)
class Surface:
    """A receptacle: a horizontal rectangle that objects stand on, in the piece's frame."""

    name: str
    pos: tuple[float, float, float]
    half: tuple[float, float]
    headroom: float  # free height above it
    kind: str = "open"  # "open" | "fridge" | "drawer"
    joint: str | None = None  # the articulated joint that closes it off, or carries it
    capacity: int = 100


@dataclass(frozen=True)
class Piece:
    """One piece of furniture. `half`: footprint on the floor, `front`: how far it juts out in
    front."""

    name: str
    half: tuple[float, float]
    boxes: tuple[Box, ...]
    surfaces: tuple[Surface, ...] = field(default=())
    front: float = 0.0  # m: handles and closed doors


def _table(name: str, receptacle: str, hx: float, hy: float, height: float) -> Piece:
    leg = 0.03
    legs = tuple(
        Box(
            (sx * (hx - leg), sy * (hy - leg), (height - 0.04) / 2), (leg, leg, (height - 0.04) / 2)
        )
        for sx in (-1, 1)
        for sy in (-1, 1)
    )
    top = Box((0, 0, height - 0.02), (hx, hy, 0.02))
    return Piece(
        name, (hx, hy), (top, *legs), (Surface(receptacle, (0, 0, height), (hx, hy), 1.0),)
    )


def _chair(name: str, has_receptacle: bool) -> Piece:
    boxes = (
        Box((0, 0, 0.43), (0.22, 0.22, 0.02), DARK_WOOD),
        Box((-0.20, 0, 0.68), (0.02, 0.22, 0.23), DARK_WOOD),
        Box((0, 0.19, 0.205), (0.20, 0.02, 0.205), DARK_WOOD),
        Box((0, -0.19, 0.205), (0.20, 0.02, 0.205), DARK_WOOD),
    )
    seat = Surface(
        "receptacle_aabb_Chr1_Top1_frl_apartment_chair_01", (0.02, 0, 0.45), (0.2, 0.22), 0.8,
        capacity=2,
    )  # fmt: skip
    return Piece(name, (0.22, 0.22), boxes, (seat,) if has_receptacle else ())


# The kitchen counter: three columns of 0.8 m, drawers 2-3-2 as ReplicaCAD's. Seen from the front
# (+x), left is -y. Drawer: (column centre y, bottom z, top z of its front).
COUNTER_HALF = (0.30, 1.20)
COUNTER_HEIGHT = 0.90
DRAWERS: dict[str, tuple[float, float, float]] = {
    "drawer_left_top": (-0.80, 0.64, 0.85),
    "drawer_left_bottom": (-0.80, 0.10, 0.62),
    "drawer_middle_top": (0.0, 0.62, 0.77),
    "drawer_middle_middle": (0.0, 0.37, 0.60),
    "drawer_middle_bottom": (0.0, 0.10, 0.35),
    "drawer_right_top": (0.80, 0.64, 0.85),
    "drawer_right_bottom": (0.80, 0.10, 0.62),
}
DRAWER_TRAVEL = 0.50  # m, hab-spec 2.3
DRAWER_HALF_WIDTH = 0.38
DRAWER_MASS = 3.0  # kg
HANDLE_MASS = 0.1  # kg
DRAWER_FLOOR = 0.02  # m, surface of the drawer's floor above its bottom edge
# Inside of the drawer along x when closed, m: the part that comes out from under the counter's top,
# 0.3 m from its middle, when the drawer counts as open, 0.45 m. No arm could reach further back
# from above.
DRAWER_BACK, DRAWER_FRONT = -0.15, 0.28
DRAWER_HANDLE_X = 0.375  # m, bar of the handle in front of the counter, closed
SINK_DEPTH = 0.10


@dataclass(frozen=True)
class Counter:
    """What grasping and driving need to know of a kitchen counter; its boxes belong to its piece.

    A drawer that is not named does not exist.
    """

    drawers: Mapping[str, tuple[float, float, float]]
    """Column's centre y, bottom z, top z of the front of each, m, in the piece's frame."""
    half_widths: Mapping[str, float]
    """Inside, m."""
    rgb: tuple[float, float, float] = WHITE
    """Of the fronts."""
    fronts: tuple[Box, ...] = ()
    """Plain fronts where there is no drawer, in the piece's frame."""


COUNTER = Counter(DRAWERS, dict.fromkeys(DRAWERS, DRAWER_HALF_WIDTH))


def drawer_boxes(
    bottom: float, top: float, hy: float
) -> dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]]:
    """Boxes of a drawer around its middle: centre and half sizes by part.

    Args:
        bottom, top: of its front, m.
        hy: half its width inside, m.
    """
    half_height = (top - bottom) / 2
    wall = min(0.07, half_height - 0.01)  # half height of the side walls
    floor = -half_height + DRAWER_FLOOR - 0.01
    x, hx = (DRAWER_BACK + DRAWER_FRONT) / 2, (DRAWER_FRONT - DRAWER_BACK) / 2
    side_z = -half_height + wall + 0.01
    return {
        "front": ((0.31, 0, 0), (0.01, hy + 0.015, half_height)),
        "floor": ((x, 0, floor), (hx, hy, 0.01)),
        "back": ((DRAWER_BACK - 0.01, 0, side_z), (0.01, hy, wall)),
        "left": ((x, -hy + 0.005, side_z), (hx, 0.005, wall)),
        "right": ((x, hy - 0.005, side_z), (hx, 0.005, wall)),
        "handle": ((DRAWER_HANDLE_X, 0, 0), (0.015, 0.12, 0.02)),
    }


_TOP = COUNTER_HEIGHT - 0.02
_COUNTER_BOXES = (
    Box((0, -0.80, _TOP), (0.30, 0.40, 0.02), STONE),
    Box((0, 0.80, _TOP), (0.30, 0.40, 0.02), STONE),
    Box((0.25, 0, _TOP), (0.05, 0.40, 0.02), STONE),
    Box((-0.25, 0, _TOP), (0.05, 0.40, 0.02), STONE),
    Box((0, 0.36, _TOP), (0.20, 0.04, 0.02), STONE),
    Box((0, -0.36, _TOP), (0.20, 0.04, 0.02), STONE),
    Box((0, 0, COUNTER_HEIGHT - SINK_DEPTH - 0.01), (0.20, 0.32, 0.01), STEEL),
    Box((0, 0.325, 0.84), (0.20, 0.005, 0.04), STEEL),
    Box((0, -0.325, 0.84), (0.20, 0.005, 0.04), STEEL),
    Box((0.205, 0, 0.84), (0.005, 0.32, 0.04), STEEL),
    Box((-0.205, 0, 0.84), (0.005, 0.32, 0.04), STEEL),
    Box((-0.29, 0, 0.43), (0.01, 1.20, 0.43), WHITE),
    Box((0, -1.19, 0.43), (0.30, 0.01, 0.43), WHITE),
    Box((0, 1.19, 0.43), (0.30, 0.01, 0.43), WHITE),
    Box((0, -0.40, 0.43), (0.30, 0.01, 0.43), WHITE),
    Box((0, 0.40, 0.43), (0.30, 0.01, 0.43), WHITE),
    Box((0, 0, 0.05), (0.28, 1.20, 0.04), DARK_WOOD),
)


def drawer_surface(joint: str, counter: Counter = COUNTER) -> Surface:
    """The receptacle in a drawer."""
    y, bottom, top = counter.drawers[joint]
    x = (DRAWER_BACK + DRAWER_FRONT) / 2
    return Surface(
        f"receptacle_aabb_{joint}_frl_apartment_kitchen_counter",
        (x, y, bottom + DRAWER_FLOOR),
        ((DRAWER_FRONT - DRAWER_BACK) / 2, counter.half_widths[joint] - 0.02),
        top - bottom - DRAWER_FLOOR - 0.01, "drawer", joint, 6,
    )  # fmt: skip


# The fridge: hinge of both doors at its left front edge (+y); doors swing out towards +x. Free
# height above the middle shelf lets a tilted gripper in.
FRIDGE_HALF = (0.32, 0.35)
FRIDGE_SHELF = 0.98  # m, surface of the shelf that HAB calls middle_top
FRIDGE_HINGE = (0.32, 0.34)  # m, piece's frame
FRIDGE_DOORS: dict[str, tuple[float, float, float]] = {
    "fridge_bottom_door": (
        0.10,
        0.73,
        6.0,
    ),  # bottom z, top z [m], mass [kg] (habitat-sim test fridge)
    "fridge_top_door": (0.75, 1.84, 8.0),
}
FRIDGE_DOOR_WIDTH = 0.68
FRIDGE_DOOR_THICKNESS = 0.06
FRIDGE_DOOR_RANGE = 2.3  # rad, the fridge in habitat-sim's test assets
FRIDGE_HANDLE_Z = 1.05  # m, a knob: a hand that holds it can pivot while the door turns
FRIDGE_HANDLE_R = 0.61  # m from the hinge along the door


@dataclass(frozen=True)
class Fridge:
    """What grasping and driving need to know of a fridge; its boxes belong to its piece."""

    half: tuple[float, float]
    """Of its footprint, m."""
    hinge: tuple[float, float]
    """Of both doors, m, in the piece's frame."""
    doors: Mapping[str, tuple[float, float, float]]
    """Bottom z, top z, m, and mass, kg, of each."""
    door_width: float
    """m"""
    handle_r: float
    """m from the hinge along the door."""
    side: float = 1.0
    """1: the hinge is at +y and the doors turn to the left; -1: the mirror image."""
    rgb: tuple[float, float, float] = WHITE
    """Of the doors."""


FRIDGE = Fridge(FRIDGE_HALF, FRIDGE_HINGE, FRIDGE_DOORS, FRIDGE_DOOR_WIDTH, FRIDGE_HANDLE_R)


def door_boxes(
    name: str, fridge: Fridge
) -> dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]]:
    """Boxes of a fridge's door in its frame, hinge at the origin: centre and half sizes by part."""
    bottom, top, _ = fridge.doors[name]
    half = (FRIDGE_DOOR_THICKNESS / 2, fridge.door_width / 2, (top - bottom) / 2 - 0.005)
    boxes = {"panel": ((half[0], -fridge.side * half[1], 0.0), half)}
    if name == "fridge_top_door":  # the bottom door is never used, as in HAB
        z = FRIDGE_HANDLE_Z - (bottom + top) / 2
        boxes["handle"] = ((0.10, -fridge.side * fridge.handle_r, z), (0.035, 0.02, 0.03))
    return boxes


_FRIDGE_BOXES = (
    Box((-0.305, 0, 0.92), (0.015, 0.35, 0.92), STEEL),
    Box((0, 0.335, 0.92), (0.32, 0.015, 0.92), STEEL),
    Box((0, -0.335, 0.92), (0.32, 0.015, 0.92), STEEL),
    Box((0, 0, 1.825), (0.32, 0.35, 0.015), STEEL),
    Box((0, 0, 0.05), (0.32, 0.35, 0.05), STEEL),
    Box((0, 0, 0.74), (0.31, 0.32, 0.01), STEEL),
    Box((-0.03, 0, FRIDGE_SHELF - 0.01), (0.27, 0.32, 0.01), STEEL),
    Box((-0.03, 0, 1.51), (0.27, 0.32, 0.01), STEEL),
    Box((-0.03, 0, 0.42), (0.27, 0.32, 0.01), STEEL),
)

PIECES: dict[str, Piece] = {
    piece.name: piece
    for piece in (
        _table("table_01", "receptacle_aabb_Tbl1_Top1_frl_apartment_table_01", 0.42, 0.75, 0.75),
        _table("table_02", "receptacle_aabb_Tbl2_Top1_frl_apartment_table_02", 0.30, 0.50, 0.48),
        Piece(
            "tvstand", (0.22, 0.75),
            (Box((0, 0, 0.26), (0.22, 0.75, 0.26), DARK_WOOD),
             Box((-0.19, 0, 0.86), (0.02, 0.55, 0.32), (0.08, 0.08, 0.09))),
            (Surface("receptacle_aabb_TvStnd1_Top1_frl_apartment_tvstand", (0.03, 0, 0.52),
                     (0.19, 0.75), 1.0),),
        ),
        Piece(
            "sofa", (0.42, 0.95),
            (Box((0.04, 0, 0.21), (0.38, 0.77, 0.21), FABRIC),
             Box((-0.33, 0, 0.43), (0.09, 0.95, 0.43), FABRIC),
             Box((0.04, 0.86, 0.29), (0.38, 0.09, 0.29), FABRIC),
             Box((0.04, -0.86, 0.29), (0.38, 0.09, 0.29), FABRIC)),
            (Surface("receptacle_aabb_Sofa_frl_apartment_sofa", (0.09, 0, 0.42),
                     (0.33, 0.77), 1.0),),
        ),
        _chair("chair_0", True), _chair("chair_1", False),
        _chair("chair_2", False), _chair("chair_3", False),
        Piece("chest", (0.22, 0.45), (Box((0, 0, 0.48), (0.22, 0.45, 0.48), WOOD),)),
        Piece(
            "shelf", (0.16, 0.45),
            (Box((-0.15, 0, 0.95), (0.01, 0.45, 0.95), DARK_WOOD),
             Box((0, 0.44, 0.95), (0.16, 0.01, 0.95), DARK_WOOD),
             Box((0, -0.44, 0.95), (0.16, 0.01, 0.95), DARK_WOOD),
             *(Box((0, 0, z), (0.16, 0.44, 0.012), DARK_WOOD)
               for z in (0.1, 0.55, 1.0, 1.45, 1.88))),
        ),
        Piece("island", (0.35, 0.65), (Box((0, 0, 0.45), (0.35, 0.65, 0.45), WHITE),)),
        Piece(
            "plant", (0.18, 0.18),
            (Box((0, 0, 0.2), (0.16, 0.16, 0.2), STONE),
             Box((0, 0, 0.8), (0.18, 0.18, 0.4), GREEN)),
        ),
        Piece(
            "counter", COUNTER_HALF, _COUNTER_BOXES,
            (Surface("receptacle_aabb_counter_left_kitchen_counter", (0, -0.80, COUNTER_HEIGHT),
                     (0.30, 0.40), 1.0),
             Surface("receptacle_aabb_sink_kitchen_counter", (0, 0, COUNTER_HEIGHT - SINK_DEPTH),
                     (0.19, 0.30), 1.0, capacity=2),
             Surface("receptacle_aabb_counter_right_kitchen_counter", (0, 0.80, COUNTER_HEIGHT),
                     (0.30, 0.40), 1.0),
             *(drawer_surface(joint) for joint in DRAWERS)),
            front=DRAWER_HANDLE_X + 0.015 - COUNTER_HALF[0],
        ),
        Piece(
            "fridge", FRIDGE_HALF, _FRIDGE_BOXES,
            (Surface("receptacle_aabb_middle_topfrl_apartment_refrigerator",
                     (0.05, 0, FRIDGE_SHELF), (0.18, 0.30), 1.51 - 0.02 - FRIDGE_SHELF,
                     "fridge", "fridge_top_door", 8),),
            front=FRIDGE_DOOR_THICKNESS + 0.01,
        ),
    )
}  # fmt: skip

PARENTS: dict[str, str] = {
    "table_01": "frl_apartment_table_01_:0000",
    "table_02": "frl_apartment_table_02_:0000",
    "tvstand": "frl_apartment_tvstand_:0000",
    "sofa": "frl_apartment_sofa_:0000",
    "chair_0": "frl_apartment_chair_01_:0000",
    "counter": "kitchen_counter_:0000",
    "fridge": "fridge_:0000",
}
"""HAB's instance handle of each piece that has receptacles."""

MARKERS: dict[str, str] = {
    "cab_push_point_7": "drawer_left_top",
    "cab_push_point_6": "drawer_middle_top",
    "cab_push_point_5": "drawer_right_top",
    "cab_push_point_4": "drawer_right_bottom",
    "fridge_push_point": "fridge_top_door",
}
"""Marker (grasp point) -> articulated joint (hab-spec 2.3). Set Table uses cab_push_point_5."""
ARTICULATED_JOINTS: tuple[str, ...] = (*DRAWERS, *FRIDGE_DOORS)
MARKER_OF_JOINT: dict[str, str] = {joint: marker for marker, joint in MARKERS.items()}


def piece_to_world(pose: tuple[float, float, float], x: float, y: float) -> tuple[float, float]:
    """A point of a piece's frame on the floor, in the world, m."""
    c, s = np.cos(pose[2]), np.sin(pose[2])
    return float(pose[0] + c * x - s * y), float(pose[1] + s * x + c * y)


def footprint(name: str, pose: tuple[float, float, float]) -> tuple[float, ...]:
    """The floor that a piece covers: centre x, y, half sizes x, y, yaw; m, rad, world frame."""
    return (pose[0], pose[1], *PIECES[name].half, pose[2])
