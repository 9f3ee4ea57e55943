"""Generated episodes: episode = f(task, split, seed, index), independent of earlier ones.

The machine does not matter either. Objects are placed as by HAB's generator (hab-spec 2.5), the
robot starts as in HAB's skill tasks (hab-spec 4.3 to 4.6). Every episode is checked: objects at
rest, targets and goals within reach from free floor, robot clear of everything.

`starts="chain"` is for training only. It distributes a skill's episodes as the benchmark's tasks
need them: half of them begin where the preceding skill of a plan ends, half of Navigate's with an
object in hand (VER paper, section 6: skills have to take over from each other), and half of Pick's
and Place's reach into the fridge, whose door may have been pushed partly shut by the preceding
skill; in a few of those of opening the fridge it is ajar. In two fifths of Pick's and Place's
something stands in the way straight on, a table's corner for instance, and a sixth begin anywhere
in the home, as plans without Navigate have them. `starts="varied"` is the same, in the train split
also in more apartments with more varied furniture; with "driven" the robot has besides driven to
where Navigate ends. `starts="reach"` is for training from scratch: in half of Pick's and Place's
episodes it stands where it only needs its arm (as in Florensa et al. 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.home.objects import HAB2_KINDS, KINDS, YCB_KINDS
from rearrange.sim.home.standing import is_cut_off
from rearrange.sim.homes.layout import HAB, MIXED, PROCEDURAL, layout_ids, varied_layout_ids
from rearrange.system.registry import resolved
from rearrange.tasks.episodes.draft import (
    DRAWER_OPEN,
    FRIDGE_DOOR,
    FRIDGE_OPEN,
    MIN_CARRY,
    SET_TABLE_DRAWER,
    Draft,
    DraftRejected,
    counter_tops,
    easy_draft,
    inside,
    nothing_found,
    open_and_containers,
    open_and_fridge,
    open_receptacles,
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
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.navigate import SUCCESS_ANGLE, SUCCESS_DISTANCE

FRIDGE_AJAR = (0.0, 1.1)  # rad, where Pick and Place may push it; it counts as open at 1.17
SPLIT_NUMBERS = {"train": 0, "val": 1, "test": 2}
STREAM_NUMBERS = {"chain": 1, "varied": 2, "reach": 3, "driven": 4}
_OTHER_HOMES, _MIXED_HOMES = 22, 23
NUM_OBJECTS = 30
MAX_TRIES = 60
# HAB demands starts within 2 m in a straight line, for a base with 2.5 m/s. Ours has Fetch's 1.0
# m/s, so the driving distance is bounded too; otherwise the time limit of Pick and Place would
# decide.
MAX_WAY = 2.6  # m
# For the same reason, in homes of many rooms: 400 steps are 13 s, with turns at half a metre each.
MAX_NAVIGATE_WAY = 6.0  # m
HOLDING_SHARE = 1.0 / 6.0  # of Navigate episodes start with the object in hand (hab-spec 4.3)
STARTS = ("task", "chain", "varied", "driven", "reach")
STOPS = (1.1, SUCCESS_DISTANCE)  # m from its goal, where Navigate ends
# In Set Table 21 of 70 Places began nearer to a chair than the floor plan's robot can be, 13 more
# than 2.6 m of driving away from where the goal is reached.
DRIVEN_ON = 0.6  # m straight on, at most, from the ends of that ring: policies stop late
AGAINST = (0.245, 0.3)  # m from the base's middle to what it then stands against; 0.24 touches
AJAR_SHARE = 0.1  # of those of opening the fridge: rare in a plan, and slow
CHAIN_SHARE = 0.5  # of episodes that begin where the skill before ends, or lead into the fridge
CONTAINER_SHARE = 0.2  # of navigation that begins or ends at something in the fridge, or a drawer
CARRY_SHARE = 0.75  # of navigation with something in hand, begins where that lay
WORKING = (0.45, 0.95)  # m from what was picked or placed: where Pick and Place end
REACH_SHARE = 0.5  # of episodes that begin there
ARM = 0.95  # m from the base, from where what is picked or placed is within the arm's reach
AROUND_SHARE = 0.4  # of episodes of Pick and Place in which the robot first has to drive around
# Of episodes of Pick and Place that begin anywhere, turned anyhow. Their 300 steps are 10 s.
ANYWHERE_SHARE, MAX_ANYWHERE_WAY = 1.0 / 6.0, 6.0  # m

Maker = Callable[[str, str, int, int, str, np.random.Generator], EpisodeSpec]
"""Makes the episode from task, split, seed, index, layout id and random generator."""


@dataclass(frozen=True)
class Episodes:
    """How the episodes of a task are generated; tasks may share this."""

    make: Maker
    curricula: Mapping[str, Maker] = field(default_factory=dict)
    """One of `STARTS` -> its function; `make` serves the others."""


def generate_episode(
    task: str, split: str, seed: int, index: int, starts: str = "task", homes: str = HAB
) -> EpisodeSpec:
    """The episode; equal arguments give equal episodes.

    Args:
        starts: one of `STARTS`.
        homes: one of `layout.HOMES`, or the file of a home.

    Raises UserError for an unknown task, split, kind of starts or set of homes, a negative seed or
    index, and for a task that finds no room in the homes.
    """
    make, ids, rng = _draws(task, split, seed, index, starts, homes)
    for _ in range(MAX_TRIES):
        layout_id = ids[rng.integers(len(ids))]
        try:
            return make(task, split, seed, index, layout_id, rng)
        except DraftRejected:
            continue
    raise nothing_found(f"{task}, {split}, seed {seed}, index {index}", homes, MAX_TRIES)


def first_home(task: str, split: str, seed: int, index: int, homes: str = HAB) -> str:
    """The home in which an episode is tried first, mostly with success; known without making it."""
    _, ids, rng = _draws(task, split, seed, index, "task", homes)
    return ids[rng.integers(len(ids))]


def _draws(
    task: str, split: str, seed: int, index: int, starts: str, homes: str
) -> tuple[Maker, tuple[str, ...], np.random.Generator]:
    """The function that makes an episode, its homes, and its random stream."""
    if starts not in STARTS:
        raise UserError(f"starts must be one of {', '.join(STARTS)}; got {starts!r}")
    definition = TASKS[task]
    ids = layout_ids(split, homes)
    if seed < 0 or index < 0:
        raise UserError(f"seed and index must be 0 or more, got seed={seed} index={index}")
    episodes: Episodes = resolved(definition.episodes)
    if not isinstance(episodes, Episodes):
        raise UserError(f"the episodes of task '{task}' must be an Episodes, got {episodes!r}")
    numbers = [definition.stream_number, SPLIT_NUMBERS[split], seed, index]
    make = episodes.curricula.get(starts, episodes.make)
    if homes == MIXED:  # set by set, since there are many times more procedural homes
        numbers.append(_MIXED_HOMES)
        homes = HAB if np.random.default_rng(numbers).random() < 0.5 else PROCEDURAL
        ids = layout_ids(split, homes)
    elif homes != HAB:
        numbers.append(_OTHER_HOMES)
    if homes == HAB and starts in ("varied", "driven") and split == "train":
        ids += varied_layout_ids()
    if starts == "varied" or make is not episodes.make:
        numbers.append(STREAM_NUMBERS[starts])
    return make, ids, np.random.default_rng(numbers)


def _finish_home(
    task, split, seed, index, draft: Draft, clutter: int, receptacles, kinds=HAB2_KINDS
) -> EpisodeSpec:
    draft.add_clutter(clutter, receptacles, kinds)
    scene = draft.scene(lambda: start_anywhere(draft.placer.plan, draft.rng))
    return EpisodeSpec(task, split, seed, index, scene, tuple(draft.targets))


def _tidy_house(task, split, seed, index, layout_id, rng, count=5) -> EpisodeSpec:
    draft = Draft(layout_id, rng, {})
    places = open_receptacles(draft.layout)
    for i in range(count):
        draft.add_target(f"any_targets|{i}", HAB2_KINDS, places, places)
    return _finish_home(task, split, seed, index, draft, NUM_OBJECTS - count, places)


def _prepare_groceries(
    task, split, seed, index, layout_id, rng, is_easy=False
) -> EpisodeSpec:  # fmt: skip
    draft = Draft(layout_id, rng, {FRIDGE_DOOR: FRIDGE_OPEN})
    layout = draft.layout
    fridge, counter = inside(layout, FRIDGE_DOOR), counter_tops(layout)
    if is_easy:
        draft.add_target("obj0_target|0", HAB2_KINDS, fridge, counter)
    else:
        for i in range(2):
            draft.add_target(f"obj{i}_target|{i}", HAB2_KINDS, fridge, counter)
        draft.add_target("obj2_target|2", HAB2_KINDS, counter, fridge)
    count = NUM_OBJECTS - len(draft.targets)
    return _finish_home(task, split, seed, index, draft, count, open_and_fridge(layout))


def _set_table(task, split, seed, index, layout_id, rng, is_easy=False) -> EpisodeSpec:
    draft = Draft(layout_id, rng, {SET_TABLE_DRAWER: DRAWER_OPEN} if is_easy else {})
    layout = draft.layout
    table = [r for r in layout.receptacles if r.piece == "table_01"]
    draft.add_target("bowl_target|0", ["024_bowl"], inside(layout, SET_TABLE_DRAWER), table)
    if not is_easy:
        draft.add_target("fruit_target|1", ["013_apple"], inside(layout, FRIDGE_DOOR), table)
    return _finish_home(task, split, seed, index, draft, 27, open_and_fridge(layout))


def _rearrange_easy(task, split, seed, index, layout_id, rng) -> EpisodeSpec:
    draft = easy_draft(layout_id, rng)
    places = open_and_containers(draft.layout)
    return _finish_home(task, split, seed, index, draft, NUM_OBJECTS, places, YCB_KINDS)


def _object_skill(
    task, split, seed, index, layout_id, rng,
    is_far=False, holding_share=0.0, chain_share=0.0, from_fridge=0.0, into_fridge=0.0,
    reach_share=0.0, from_drawer=0.0, carry_share=0.0, around_share=0.0, anywhere_share=0.0,
) -> EpisodeSpec:  # fmt: skip
    """Navigate, Pick and Place: one target of a `rearrange_easy` home.

    Args:
        is_far: the robot has to drive to the target, or with it to its goal; else it is near.
        holding_share: of the episodes start with the object in hand.
        chain_share: of the episodes start where the skill before ends.
        carry_share: of these, the share that starts where Pick would have ended.
        around_share: of the episodes start where driving straight on does not get near enough.
        anywhere_share: of the episodes that would start near start anywhere in the home instead.
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

    if task == "navigate" and not draft.is_hab:
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
    return EpisodeSpec(task, split, seed, index, scene, tuple(draft.targets), start_holding=holding)


def _start_cells(
    draft: Draft,
    point,
    is_anywhere: bool,
    is_arrival: bool,
    reach_share: float,
    around_share: float,
) -> np.ndarray:
    """Floor [N, 2] near what is to be reached; for the shares see `_object_skill`.

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


def _articulated_skill(
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


TIDY_HOUSE = Episodes(_tidy_house)
TIDY_HOUSE_EASY = Episodes(partial(_tidy_house, count=2))
PREPARE_GROCERIES = Episodes(_prepare_groceries)
PREPARE_GROCERIES_EASY = Episodes(partial(_prepare_groceries, is_easy=True))
SET_TABLE = Episodes(_set_table)
SET_TABLE_EASY = Episodes(partial(_set_table, is_easy=True))
REARRANGE_EASY = Episodes(_rearrange_easy)


def _with_chain(make: Maker, chain: Maker, **others: Maker) -> Episodes:
    return Episodes(make, {"chain": chain, "varied": chain, "driven": chain, **others})


_chain_shares = {
    "chain_share": CHAIN_SHARE,
    "around_share": AROUND_SHARE,
    "anywhere_share": ANYWHERE_SHARE,
}
_navigate = partial(_object_skill, is_far=True, holding_share=HOLDING_SHARE)
_place = partial(_object_skill, holding_share=1.0)
_open_drawer = partial(_articulated_skill, joint=SET_TABLE_DRAWER)
_open_fridge = partial(_articulated_skill, joint=FRIDGE_DOOR)
# Set Table carries the bowl away from an open drawer, which hardly any random episode does.
NAVIGATE = _with_chain(
    _navigate,
    partial(
        _navigate, holding_share=0.5, chain_share=CHAIN_SHARE,
        from_fridge=CONTAINER_SHARE, from_drawer=CONTAINER_SHARE, carry_share=CARRY_SHARE,
    ),
)  # fmt: skip
PICK = _with_chain(
    _object_skill,
    partial(_object_skill, from_fridge=CHAIN_SHARE, **_chain_shares),
    reach=partial(_object_skill, reach_share=REACH_SHARE),
)  # fmt: skip
PLACE = _with_chain(
    _place,
    partial(_place, into_fridge=CHAIN_SHARE, **_chain_shares),
    reach=partial(_place, reach_share=REACH_SHARE),
)
OPEN_DRAWER = _with_chain(_open_drawer, partial(_open_drawer, chain_share=CHAIN_SHARE))
OPEN_FRIDGE = _with_chain(_open_fridge, partial(_open_fridge, chain_share=CHAIN_SHARE))
_close_drawer, _close_fridge = (
    partial(_open_drawer, is_open=True),
    partial(_open_fridge, is_open=True),
)
CLOSE_DRAWER = _with_chain(_close_drawer, partial(_close_drawer, chain_share=CHAIN_SHARE))
CLOSE_FRIDGE = _with_chain(_close_fridge, partial(_close_fridge, chain_share=CHAIN_SHARE))
assert all(kind in KINDS for kind in YCB_KINDS)
