"""How much of the receptacles our generator leaves empty because the arm cannot reach it.

HAB's generator asks for a navigable point within 1.5 m of an object, seen from above (hab-spec
2.5). Ours asks for free floor 0.42 to 0.72 m away, from where Fetch's arm reaches it, and keeps
the objects' centres away from the edge.

    python -m rearrange.eval.benchmarks.homes.reach_share
"""

from __future__ import annotations

import sys
from dataclasses import astuple, dataclass

import numpy as np

from rearrange.sim.home.house import (
    EDGE_MARGIN,
    REACH_MAX,
    REACH_MIN,
    Layout,
    Receptacle,
    floor_plan,
)
from rearrange.sim.home.standing import floor_cells_near
from rearrange.sim.homes.layout import layout_ids, make_layout

NAV_TO_MIN_DISTANCE = 1.5  # m, hab-spec 2.5
SPACING = 0.02  # m between the points that stand for the area
SETS = (("hab", "val"), ("hab", "test"), ("procedural", "val"))


@dataclass(frozen=True)
class Share:
    """Areas of open receptacles, m2."""

    whole: float
    area: float
    """As far from the edges as objects stay."""
    by_hab: float
    """What HAB's rule takes."""
    by_both: float
    """What ours takes of that."""

    @property
    def rejected(self) -> float:
        """Of what HAB's rule takes, the share that ours does not."""
        return 1.0 - self.by_both / self.by_hab

    def __add__(self, other: Share) -> Share:
        return Share(*(sum(pair) for pair in zip(astuple(self), astuple(other), strict=True)))


def points_of(receptacle: Receptacle, spacing: float = SPACING) -> np.ndarray:
    """The middles of the squares that a receptacle is cut into, [N, 2] m, world."""
    sides = []
    for half in receptacle.half:
        inner = half - EDGE_MARGIN
        count = max(round(2 * inner / spacing), 1)
        sides.append((np.arange(count) + 0.5) / count * 2 * inner - inner)
    x, y = (values.ravel() for values in np.meshgrid(*sides))
    c, s = np.cos(receptacle.yaw), np.sin(receptacle.yaw)
    return np.column_stack([receptacle.pos[0] + c * x - s * y, receptacle.pos[1] + s * x + c * y])


def share_of(layout: Layout) -> Share:
    """Of one home with everything closed."""
    plan, total = floor_plan(layout, {}), Share(0.0, 0.0, 0.0, 0.0)
    for receptacle in layout.receptacles:
        if receptacle.kind != "open":
            continue  # what is before doors and drawers is kept free in every home
        points = points_of(receptacle)
        hab = floor_cells_near(plan, points, 0.0, NAV_TO_MIN_DISTANCE, enough=1) > 0
        ours = floor_cells_near(plan, points, REACH_MIN, REACH_MAX, enough=1) > 0
        area = 4.0 * float(np.prod([half - EDGE_MARGIN for half in receptacle.half]))
        whole = 4.0 * float(np.prod(receptacle.half))
        total += Share(whole, area, area * hab.mean(), area * (hab & ours).mean())
    return total


def main() -> int:
    """Prints a row for each set of homes."""
    print("| homes | split | homes | area, m2 | at the edge | HAB takes of the rest | ours not |")
    print("|---|---|---|---|---|---|---|")
    for homes, split in SETS:
        ids = layout_ids(split, homes)
        total = sum((share_of(make_layout(name)) for name in ids), Share(0.0, 0.0, 0.0, 0.0))
        edge, taken = 1.0 - total.area / total.whole, total.by_hab / total.area
        print(
            f"| {homes} | {split} | {len(ids)} | {total.whole:.1f} | {edge:.1%} | {taken:.1%} "
            f"| {total.rejected:.1%} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
