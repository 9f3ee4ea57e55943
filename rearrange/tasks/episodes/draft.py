"""A draft episode: targets with goals, clutter around them, the robot's start.

A draw that cannot be completed raises `DraftRejected`; the generator then draws again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rearrange.errors import UserError
from rearrange.sim.home.house import Layout, Receptacle
from rearrange.sim.home.objects import HAB2_KINDS, YCB_KINDS
from rearrange.sim.homes.layout import HAB, homes_of, make_layout
from rearrange.sim.robot import fetch
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.tasks.episodes.placing import Placer, find_start
from rearrange.tasks.rules.episode import Target

FRIDGE_DOOR = "fridge_top_door"
CLUTTERED_DRAWERS = (  # those of HAB's rearrange_easy (hab-spec 2.5)
    "drawer_left_top", "drawer_middle_top", "drawer_right_top",
)  # fmt: skip
SET_TABLE_DRAWER = "drawer_right_top"  # behind cab_push_point_5
FRIDGE_OPEN = 1.5  # rad, hab-spec 2.5
FRIDGE_PUSHED = (1.2, 2.3)  # rad, after the skills; the hinge ends at 2.3 (hab-spec 2.3)
PUSHED_SHARE = 0.5  # of what leads into the fridge, in plans
DRAWER_OPEN = 0.45  # m
MIN_CARRY = 1.0  # m between a target's start and goal


class DraftRejected(Exception):
    """This sample cannot be used; draw again."""


def nothing_found(episode: str, homes: str, tries: int) -> UserError:
    """What to say when every draft of an episode was rejected."""
    return UserError(
        f"there must be room for the episode ({episode}) in the homes {homes}, but {tries} drafts "
        "of it were rejected: add surfaces or free floor to a home of your own, ask for less in a "
        "task of your own, or choose another task or other homes"
    )


def inside(layout: Layout, joint: str) -> list[Receptacle]:
    """Receptacles behind a door or in a drawer."""
    return [r for r in layout.receptacles if r.link == joint]


def counter_tops(layout: Layout) -> list[Receptacle]:
    """The worktops left and right of the sink."""
    return [
        r for r in layout.receptacles if "_counter_left_" in r.name or "_counter_right_" in r.name
    ]


def open_receptacles(layout: Layout) -> list[Receptacle]:
    """All receptacles that nothing encloses: where tidy_house has its clutter."""
    return [r for r in layout.receptacles if r.kind == "open"]


def open_and_fridge(layout: Layout) -> list[Receptacle]:
    """Where prepare_groceries and set_table have their clutter."""
    return open_receptacles(layout) + inside(layout, FRIDGE_DOOR)


def open_and_containers(layout: Layout) -> list[Receptacle]:
    """Where rearrange_easy and the skills have theirs: also the drawers of the upper row."""
    drawers = [r for joint in CLUTTERED_DRAWERS for r in inside(layout, joint)]
    return open_and_fridge(layout) + drawers


class Draft:
    """An episode being drawn: first the targets with their goals, then clutter around them."""

    def __init__(self, layout_id: str, rng: np.random.Generator, opening: dict[str, float]) -> None:
        self.layout = make_layout(layout_id)
        self.is_hab = homes_of(layout_id) == HAB
        self.rng, self.opening = rng, opening
        self.placer = Placer(self.layout, rng, opening)
        self.objects: list[ObjectPlacement] = []
        self.targets: list[Target] = []

    def add_target(
        self,
        name: str,
        kinds: Sequence[str],
        starts: Sequence[Receptacle],
        goals: Sequence[Receptacle],
    ) -> None:
        """Adds one object and its goal, apart from each other and from all others."""
        kind = self.placer.draw_kind(kinds)
        start = self.placer.spot(kind, starts, is_target=True)
        if start is None:
            raise DraftRejected
        goal = self.placer.spot(kind, goals, is_target=True)
        if goal is None or np.linalg.norm(np.subtract(goal[1], start[1])) < MIN_CARRY:
            raise DraftRejected
        placement = self.placer.placement(kind, start[1], start[0])
        x, y, z = goal[1]
        self.targets.append(
            Target(
                len(self.objects), name, placement.pos, (float(x), float(y), float(z)),
                start[0].name, goal[0].name, start[0].link, goal[0].link,
            )
        )  # fmt: skip
        self.objects.append(placement)

    def add_clutter(
        self, count: int, receptacles: Sequence[Receptacle], kinds: Sequence[str] = HAB2_KINDS
    ) -> None:
        """Adds `count` objects of clutter."""
        for _ in range(count):
            kind = self.placer.draw_kind(kinds)
            spot = self.placer.spot(kind, receptacles)
            if spot is None:
                raise DraftRejected
            self.objects.append(self.placer.placement(kind, spot[1], spot[0]))

    def scene(self, sample, held: int | None = None, tries: int = 40) -> Scene:
        """The world with the first sampled robot pose that is valid. Raises DraftRejected if none
        is."""
        nowhere, arm = (0.0, 0.0, 0.0), tuple(fetch.ARM_START)
        empty = Scene(
            self.layout.id, tuple(self.objects), nowhere, arm, dict(self.opening),
            self.layout.digest,
        )  # fmt: skip
        scene = find_start(empty, sample, self.rng, held, tries)
        if scene is None:
            raise DraftRejected
        return scene


def easy_draft(
    layout_id: str, rng: np.random.Generator,
    from_fridge: float = 0.0, into_fridge: float = 0.0, from_drawer: float = 0.0,
) -> Draft:  # fmt: skip
    """One object, from any receptacle to any other, containers open.

    Of all drafts the share `from_fridge` starts in the fridge and `into_fridge` ends there, in half
    of these with a door that was pushed partly shut; of the rest the share `from_drawer` starts in
    a drawer; the others are drawn as usual.

    HAB opens all drawers. Ours are solid and would keep the robot away from the counter, so only
    the fridge and the drawer that holds the object are open; the counter above an open drawer is
    excluded.
    """
    start = ("open", "open", "open", "open", "fridge", "drawer")[rng.integers(6)]
    is_into = False
    is_chain = bool(from_fridge or into_fridge)
    if from_fridge and rng.random() < from_fridge:
        start = "fridge"
    elif into_fridge and rng.random() < into_fridge:
        start, is_into = ("open", "drawer")[int(start == "drawer")], True
    elif from_drawer and rng.random() < from_drawer:
        start = "drawer"
    drawer = (SET_TABLE_DRAWER, "drawer_left_top")[rng.integers(2)]
    opening = {FRIDGE_DOOR: FRIDGE_OPEN}
    if is_chain and (start == "fridge" or is_into) and rng.random() < PUSHED_SHARE:
        opening[FRIDGE_DOOR] = float(rng.uniform(*FRIDGE_PUSHED))
    if start == "drawer":
        opening[drawer] = DRAWER_OPEN
    draft = Draft(layout_id, rng, opening)
    places = open_receptacles(draft.layout)
    if start == "drawer":
        places = [r for r in places if r.piece != "counter"]
    fridge = inside(draft.layout, FRIDGE_DOOR)
    starts = {"open": places, "fridge": fridge, "drawer": inside(draft.layout, drawer)}[start]
    is_into = is_into or (start != "fridge" and rng.random() >= 0.8)
    goals = fridge if is_into else places
    draft.add_target("goal0|0", YCB_KINDS, starts, goals)
    return draft
