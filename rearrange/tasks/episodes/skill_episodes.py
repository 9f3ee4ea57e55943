"""Episodes of single skills: where the robot begins, what is in its hand, what is open.

    a draft with its target --> clutter --> floor from which the skill may begin --> a start there

How often each kind of start comes is said in `generate.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.home.objects import HAB2_KINDS, YCB_KINDS
from rearrange.sim.home.standing import is_cut_off
from rearrange.tasks.episodes.draft import (
    MIN_CARRY,
    Draft,
    DraftRejected,
    easy_draft,
    inside,
    open_and_containers,
)
from rearrange.tasks.episodes.placing import (
    YAW_NOISE,
    around_something,
    cells_within_way,
    driven_on,
    start_anywhere,
    start_at,
    start_near,
    within,
)
from rearrange.tasks.rules.episode import EpisodeSpec, Target
from rearrange.tasks.rules.navigate import SUCCESS_ANGLE, SUCCESS_DISTANCE

NUM_OBJECTS = 30  # of clutter, at most
FRIDGE_AJAR = (0.0, 1.1)  # rad, where Pick and Place may push it; it counts as open at 1.17
AJAR_SHARE = 0.1  # of those of opening the fridge: rare in a plan, and slow
# HAB demands starts within 2 m in a straight line, for a base with 2.5 m/s. Ours has Fetch's 1.0
# m/s, so the driving distance is bounded too; otherwise the time limit of Pick and Place would
# decide.
MAX_WAY = 2.6  # m
# For the same reason, in homes of many rooms: 400 steps are 13 s, with turns at half a metre each.
MAX_NAVIGATE_WAY = 6.0  # m
MAX_ANYWHERE_WAY = 6.0  # m, of Pick and Place that begin anywhere; their 300 steps are 10 s
STOPS = (1.1, SUCCESS_DISTANCE)  # m from its goal, where Navigate ends
# In Set Table 21 of 70 Places began nearer to a chair than the floor plan's robot can be, 13 more
# than 2.6 m of driving away from where the goal is reached.
DRIVEN_ON = 0.6  # m straight on, at most, from the ends of that ring: policies stop late
AGAINST = (0.245, 0.3)  # m from the base's middle to what it then stands against; 0.24 touches
WORKING = (0.45, 0.95)  # m from what was picked or placed: where Pick and Place end
ARM = 0.95  # m from the base, from where what is picked or placed is within the arm's reach


def object_skill(
    task, split, seed, index, layout_id, rng,
    is_far=False, holding_share=0.0, chain_share=0.0, from_fridge=0.0, into_fridge=0.0,
    reach_share=0.0, from_drawer=0.0, carry_share=0.0, around_share=0.0, anywhere_share=0.0,
    slid=0.0,
) -> EpisodeSpec:  # fmt: skip
    """Navigate, Pick and Place: one target of a `rearrange_easy` home.

    Args:
        is_far: the robot has to drive to the target, or with it to its goal; else it is near.
        holding_share: of the episodes start with the object in hand.
        chain_share: of the episodes start where the skill before ends.
        carry_share: of these, the share that starts where Pick would have ended.
        around_share: of the episodes start where driving straight on does not get near enough.
        anywhere_share: of the episodes that would start near start anywhere in the home instead.
        slid: m, at most, that what lies in a drawer lies farther out than the robot is told.
    """
    draft = easy_draft(layout_id, rng, from_fridge, into_fridge, from_drawer)
    draft.add_clutter(NUM_OBJECTS, open_and_containers(draft.layout), YCB_KINDS)
    target, plan, walls = draft.targets[0], draft.placer.plan, draft.layout.walls
    is_drawn = 0.0 < holding_share < 1.0
    holding = rng.random() < holding_share if is_drawn else bool(holding_share)
    point = target.goal if holding else target.start

    def far() -> tuple[float, float, float] | None:
        if not draft.is_hab:
            x, y = places[rng.integers(len(places))]
            return float(x), float(y), float(rng.uniform(-np.pi, np.pi))
        base = start_anywhere(plan, rng)
        distance = np.linalg.norm(np.subtract(point, (base[0], base[1], 0.0)))
        return base if distance > 3.0 else None

    if is_far and not draft.is_hab:
        places = cells_within_way(plan, walls, point, np.inf, MAX_NAVIGATE_WAY, 3.0)
        if not len(places):
            raise DraftRejected
    is_chained = bool(chain_share) and rng.random() < chain_share
    is_anywhere = bool(anywhere_share) and rng.random() < anywhere_share
    is_arrival = is_chained and not is_far and not is_anywhere
    cells = _start_cells(draft, point, is_anywhere, is_arrival, reach_share, around_share)

    def near() -> tuple[float, float, float]:
        return start_near(cells, rng, point)

    def leaving() -> tuple[float, float, float] | None:
        """A start in front of something else, where Pick or Place have just ended."""
        other = draft.objects[rng.integers(len(draft.objects))].pos
        if holding and carry_share and rng.random() < carry_share:
            other = target.start
        if np.hypot(other[0] - point[0], other[1] - point[1]) < MIN_CARRY:
            return None
        return start_at(plan, rng, other, WORKING)

    def arrived() -> tuple[float, float, float]:
        """A start where Navigate ends: often it has driven on, up to what stands in the way."""
        base = start_near(cells, rng, point, SUCCESS_ANGLE)
        return driven_on(plan, base, rng.uniform(0.0, DRIVEN_ON), rng.uniform(*AGAINST))

    def anywhere() -> tuple[float, float, float]:
        return start_near(cells, rng, point, np.pi)

    held = target.object if holding else None
    usual, chained = (far, leaving) if is_far else (near, arrived)
    sample = anywhere if is_anywhere else chained if is_chained else usual
    scene = draft.scene(sample, held, tries=100)
    targets = [_as_told(one, draft, slid) for one in draft.targets] if slid else draft.targets
    return EpisodeSpec(task, split, seed, index, scene, tuple(targets), start_holding=holding)


def articulated_skill(
    task, split, seed, index, layout_id, rng, joint, is_open=False, chain_share=0.0
) -> EpisodeSpec:
    """Open and close: the robot in front of the drawer or fridge that holds the target.

    HAB's start regions (hab-spec 4.6) would put the hand of our robot into the counter, and the
    robot into the swing of the open door: the furniture's sizes differ. Ours begin where hand and
    door are free.

    Args:
        joint: of a drawer or of the fridge's door.
        is_open: at the start.
    """
    is_drawer = joint in fur.DRAWERS
    opening = {}
    if is_open:
        opening[joint] = float(
            rng.uniform(0.4, 0.5) if is_drawer else rng.uniform(np.pi / 4, 2 * np.pi / 3)
        )
    elif chain_share and not is_drawer and rng.random() < AJAR_SHARE:
        opening[joint] = float(rng.uniform(*FRIDGE_AJAR))
    draft = Draft(layout_id, rng, opening)
    layout = draft.layout
    kinds = ["024_bowl", "013_apple"] if is_drawer else HAB2_KINDS
    table = [r for r in layout.receptacles if r.piece == "table_01"]
    draft.add_target("any_targets|0", kinds, inside(layout, joint), table)
    draft.add_clutter(NUM_OBJECTS - 1, open_and_containers(layout))
    piece = "counter" if is_drawer else "fridge"
    pose = layout.pieces[piece]
    y0 = layout.counter.drawers[joint][0] if is_drawer else 0.0
    front = 0.0
    if is_drawer:  # distances from the handle
        front = fur.DRAWER_HANDLE_X + opening.get(joint, 0.0)
    near, far, side = (0.55, 0.80, 0.15) if is_drawer else (1.15, 1.4, 0.3)

    def before() -> tuple[float, float, float] | None:
        x, y = piece_to_world(pose, front + rng.uniform(near, far), y0 + rng.uniform(-side, side))
        ox, oy = piece_to_world(pose, 0.0, y0)
        yaw = float(np.arctan2(oy - y, ox - x) + rng.normal(0.0, YAW_NOISE))
        return (x, y, yaw) if draft.placer.plan.is_free(x, y) else None

    def arrived() -> tuple[float, float, float] | None:
        """Where Navigate stops on its way to what lies inside: about as soon as it may."""
        inside = draft.targets[0].start
        base = start_at(draft.placer.plan, rng, inside, STOPS, SUCCESS_ANGLE)
        if base is None:
            return None
        ahead = (base[0] - pose[0]) * np.cos(pose[2]) + (base[1] - pose[1]) * np.sin(pose[2])
        return base if ahead > 0.0 else None  # not from behind a wall

    sample = arrived if chain_share and rng.random() < chain_share else before
    scene = draft.scene(sample, tries=100)
    marker = {value: key for key, value in fur.MARKERS.items()}[joint]
    return EpisodeSpec(task, split, seed, index, scene, tuple(draft.targets), marker=marker)


def _as_told(target: Target, draft: Draft, slid: float) -> Target:
    """The target as it was before it slid on in the drawer that was opened, by up to `slid` m."""
    drawer = next(r for r in draft.layout.receptacles if r.name == target.start_receptacle)
    if drawer.kind != "drawer":
        return target
    length, (x, y, z) = float(draft.rng.uniform(0.0, slid)), target.start
    x, y = x - length * np.cos(drawer.yaw), y - length * np.sin(drawer.yaw)
    return replace(target, start=(float(x), float(y), z))


def _start_cells(
    draft: Draft,
    point,
    is_anywhere: bool,
    is_arrival: bool,
    reach_share: float,
    around_share: float,
) -> np.ndarray:
    """Floor [N, 2] near what is to be reached; for the shares see `object_skill`.

    Args:
        is_anywhere: as far from it as time allows.
        is_arrival: only where Navigate ends.
    """
    plan, rng, walls = draft.placer.plan, draft.rng, draft.layout.walls
    if is_anywhere:
        cells = cells_within_way(plan, walls, point, np.inf, MAX_ANYWHERE_WAY)
    elif is_arrival:
        cells = cells_within_way(plan, walls, point, STOPS[1], MAX_NAVIGATE_WAY, STOPS[0])
        cells = cells[~is_cut_off(cells, point, walls)]
    else:
        cells = cells_within_way(plan, walls, point, 2.0, MAX_WAY)
    if reach_share and rng.random() < reach_share:
        cells = within(WORKING, cells, point)
    if around_share and rng.random() < around_share:
        around = around_something(plan, cells, point, ARM)
        cells = around if len(around) else cells
    if not len(cells):
        raise DraftRejected
    return cells
