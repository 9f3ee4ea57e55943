"""Movable objects: YCB names, sizes and masses as boxes, cylinders and spheres.

Sensors see the collision shapes. Sizes are the calliper values that YCB publishes, and so are the
masses (hab-spec 2.4; Calli et al. 2015, "The YCB object and model set"). Boxes that are upright in
YCB's scans are upright here.

The world holds a fixed number of slots, so that every episode has the same model topology. A slot
takes an object of any shape; those that an episode leaves empty stay parked below the floor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rearrange.errors import UserError
from rearrange.system.registry import Registry


@dataclass(frozen=True)
class ObjectKind:
    """A kind of object. `size` holds MuJoCo's half sizes for `shape`, m; upright is local +z."""

    name: str
    shape: str  # "box" | "cylinder" | "sphere"
    size: tuple[float, float, float]
    mass: float  # kg
    rgb: tuple[float, float, float]

    @property
    def half_height(self) -> float:
        """Height of the centre above what the object stands on, m."""
        return {"box": self.size[2], "cylinder": self.size[1], "sphere": self.size[0]}[self.shape]

    @property
    def footprint_radius(self) -> float:
        """Radius of the circle around the centre that holds the object seen from above, m."""
        return float(np.hypot(self.size[0], self.size[1])) if self.shape == "box" else self.size[0]

    def inertia(self) -> np.ndarray:
        """Diagonal inertia of the solid of uniform density, [3] kg m^2."""
        a, b, c = self.size
        m = self.mass
        if self.shape == "box":
            return m / 3.0 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])
        if self.shape == "cylinder":
            across = m * (3.0 * a * a + (2.0 * b) ** 2) / 12.0
            return np.array([across, across, 0.5 * m * a * a])
        return np.full(3, 0.4 * m * a * a)

    def support(self, direction: np.ndarray) -> float:
        """Distance from its centre to its surface, as it stands, along a unit vector [3], m."""
        d = np.abs(direction) + 1e-9
        if self.shape == "sphere":
            return self.size[0]
        if self.shape == "box":
            return float(min(half / c for half, c in zip(self.size, d, strict=True)))
        return float(min(self.size[0] / math.hypot(d[0], d[1]), self.size[1] / d[2]))


KINDS: Registry[ObjectKind] = Registry("object kind", lambda it: isinstance(it, ObjectKind))
"""All kinds of loose objects: YCB's, and any that are added, each of one of the three shapes."""


def _box(name, x_mm, y_mm, z_mm, mass, rgb):
    return ObjectKind(name, "box", (x_mm / 2000, y_mm / 2000, z_mm / 2000), mass, rgb)


def _cylinder(name, diameter_mm, height_mm, mass, rgb):
    return ObjectKind(name, "cylinder", (diameter_mm / 2000, height_mm / 2000, 0.0), mass, rgb)


def _sphere(name, diameter_mm, mass, rgb):
    return ObjectKind(name, "sphere", (diameter_mm / 2000, 0.0, 0.0), mass, rgb)


# Fruit longer than wide gets the sphere of its mean diameter.
for _kind in (
    _cylinder("002_master_chef_can", 102, 139, 0.414, (0.16, 0.27, 0.53)),
    _box("003_cracker_box", 60, 158, 210, 0.411, (0.75, 0.12, 0.10)),
    _box("004_sugar_box", 38, 89, 175, 0.514, (0.93, 0.80, 0.18)),
    _cylinder("005_tomato_soup_can", 66, 101, 0.349, (0.80, 0.22, 0.18)),
    _cylinder("007_tuna_fish_can", 85, 33, 0.171, (0.35, 0.60, 0.75)),
    _box("008_pudding_box", 110, 89, 35, 0.187, (0.45, 0.27, 0.14)),
    _box("009_gelatin_box", 85, 73, 28, 0.097, (0.80, 0.35, 0.45)),
    _box("010_potted_meat_can", 50, 97, 82, 0.370, (0.20, 0.35, 0.65)),
    _box("011_banana", 190, 36, 36, 0.066, (0.95, 0.85, 0.25)),
    _sphere("012_strawberry", 49, 0.018, (0.85, 0.10, 0.15)),
    _sphere("013_apple", 75, 0.068, (0.72, 0.10, 0.10)),
    _sphere("014_lemon", 61, 0.029, (0.95, 0.90, 0.20)),
    _sphere("015_peach", 59, 0.033, (0.95, 0.65, 0.40)),
    _sphere("016_pear", 77, 0.049, (0.70, 0.78, 0.25)),
    _sphere("017_orange", 73, 0.047, (0.95, 0.55, 0.10)),
    _sphere("018_plum", 52, 0.025, (0.40, 0.12, 0.30)),
    _box("021_bleach_cleanser", 65, 98, 250, 1.131, (0.90, 0.90, 0.93)),
    _cylinder("024_bowl", 159, 53, 0.147, (0.75, 0.20, 0.20)),
    _cylinder("025_mug", 81, 82, 0.118, (0.70, 0.25, 0.20)),
    _box("026_sponge", 72, 114, 14, 0.0062, (0.90, 0.75, 0.20)),
):
    KINDS.add(_kind.name, _kind)

HAB2_KINDS: tuple[str, ...] = (
    "002_master_chef_can", "003_cracker_box", "004_sugar_box", "005_tomato_soup_can",
    "007_tuna_fish_can", "008_pudding_box", "009_gelatin_box", "010_potted_meat_can", "024_bowl",
)  # fmt: skip
"""Kinds of the clutter in HAB's three tasks."""

YCB_KINDS: tuple[str, ...] = (
    *HAB2_KINDS[:-1],
    "011_banana", "012_strawberry", "013_apple", "014_lemon", "015_peach", "016_pear", "017_orange",
    "018_plum", "021_bleach_cleanser", "024_bowl", "025_mug", "026_sponge",
)  # fmt: skip
"""All of HAB's kinds: the clutter of its rearrange_easy (hab-spec 2.4)."""

NUM_SLOTS = 36  # HAB's generator places 30 objects besides those to be moved, in some tasks fewer


def object_kind(name: str) -> ObjectKind:
    """The kind called `name`. Raises UserError that lists the known kinds."""
    if name not in KINDS:
        raise UserError(f"object kind must be one of {', '.join(KINDS)}, got {name!r}")
    return KINDS[name]


def check_objects(kinds: Sequence[str]) -> None:
    """Raises UserError for an unknown kind, or more objects than there are slots."""
    for name in kinds:
        object_kind(name)
    if len(kinds) > NUM_SLOTS:
        raise UserError(
            f"a scene may hold at most {NUM_SLOTS} objects, got {len(kinds)}; use fewer"
        )
