"""Generated episodes: episode = f(task, split, seed, index), independent of earlier ones.

The machine does not matter either. Objects are placed as by HAB's generator (hab-spec 2.5), the
robot starts as in HAB's skill tasks (hab-spec 4.3 to 4.6). Every episode is checked: objects at
rest, targets and goals within reach from free floor, robot clear of everything.

`starts="chain"` is for training only. It distributes a skill's episodes as the benchmark's tasks
need them: half of them begin where the preceding skill of a plan ends, half of Navigate's with an
object in hand (VER paper, section 6: skills have to take over from each other), and two fifths of
Pick's and Place's reach into the fridge, whose door may have been pushed partly shut by the
preceding skill; in a few of those of opening the fridge it is ajar. A quarter of Pick's reach into
a drawer, where things have slid a little as it was opened. In two fifths of Pick's and Place's
something stands in the way straight on, a table's corner for instance, and a sixth of Pick's and a
quarter of Place's begin anywhere in the home, as plans without Navigate have them.
`starts="varied"` is the same, in the train split also in more apartments with more varied
furniture; with "driven" the robot has besides driven to where Navigate ends. `starts="reach"` is
for training from scratch: in half of Pick's and Place's episodes it stands where it only needs its
arm (as in Florensa et al. 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rearrange.errors import UserError
from rearrange.sim.home.objects import HAB2_KINDS, KINDS, YCB_KINDS
from rearrange.sim.homes.layout import HAB, MIXED, PROCEDURAL, layout_ids, varied_layout_ids
from rearrange.system.checked_json import MAX_WHOLE
from rearrange.system.registry import resolved
from rearrange.tasks.episodes.draft import (
    DRAWER_OPEN,
    FRIDGE_DOOR,
    FRIDGE_OPEN,
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
from rearrange.tasks.episodes.placing import start_anywhere
from rearrange.tasks.episodes.skill_episodes import NUM_OBJECTS, articulated_skill, object_skill
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec

SPLIT_NUMBERS = {"train": 0, "val": 1, "test": 2}
STREAM_NUMBERS = {"chain": 1, "varied": 2, "reach": 3, "driven": 4}
_OTHER_HOMES, _MIXED_HOMES = 22, 23
MAX_TRIES = 60
STARTS = ("task", "chain", "varied", "driven", "reach")
HOLDING_SHARE = 1.0 / 6.0  # of Navigate episodes start with the object in hand (hab-spec 4.3)
CHAIN_SHARE = 0.5  # of episodes that begin where the skill before ends
# With half of its episodes out of the fridge Pick set out to drive around its door for what lay on
# the counter beside it, and missed a bowl in a drawer in 25 of 193 plans, before in none.
FROM_FRIDGE, FROM_DRAWER = 1.0 / 3.0, 0.25  # of Pick's; the second of the others
INTO_FRIDGE = 0.25  # of Place's: a third of the goals of one benchmark task out of three
CONTAINER_SHARE = 0.2  # of navigation that begins or ends at something in the fridge, or a drawer
CARRY_SHARE = 0.75  # of navigation with something in hand, begins where that lay
REACH_SHARE = 0.5  # of episodes that begin where the arm is enough
AROUND_SHARE = 0.4  # of episodes of Pick and Place in which the robot first has to drive around
# Of episodes of Pick and Place, those that begin anywhere, turned anyhow. In plans without Navigate
# Place begins where Pick ended, Pick where the robot happens to be.
PICK_ANYWHERE, PLACE_ANYWHERE = 1.0 / 6.0, 0.25
SLID = 0.06  # m, as far as a bowl slid on in a drawer that the robot opened

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

    Raises UserError for an unknown task, split, kind of starts or set of homes, a seed or index
    outside 0 to 2^53, and for a task that finds no room in the homes.
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
    if max(seed, index) > MAX_WHOLE:
        raise UserError(f"seed and index must be at most {MAX_WHOLE}, got {seed=} {index=}")
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


TIDY_HOUSE = Episodes(_tidy_house)
TIDY_HOUSE_EASY = Episodes(partial(_tidy_house, count=2))
PREPARE_GROCERIES = Episodes(_prepare_groceries)
PREPARE_GROCERIES_EASY = Episodes(partial(_prepare_groceries, is_easy=True))
SET_TABLE = Episodes(_set_table)
SET_TABLE_EASY = Episodes(partial(_set_table, is_easy=True))
REARRANGE_EASY = Episodes(_rearrange_easy)


def _with_chain(make: Maker, chain: Maker, **others: Maker) -> Episodes:
    return Episodes(make, {"chain": chain, "varied": chain, "driven": chain, **others})


_chain_shares = {"chain_share": CHAIN_SHARE, "around_share": AROUND_SHARE}
_navigate = partial(object_skill, is_far=True, holding_share=HOLDING_SHARE)
_place = partial(object_skill, holding_share=1.0)
_open_drawer = partial(articulated_skill, joint=SET_TABLE_DRAWER)
_open_fridge = partial(articulated_skill, joint=FRIDGE_DOOR)
# Set Table carries the bowl away from an open drawer, which hardly any random episode does.
NAVIGATE = _with_chain(
    _navigate,
    partial(
        _navigate, holding_share=0.5, chain_share=CHAIN_SHARE,
        from_fridge=CONTAINER_SHARE, from_drawer=CONTAINER_SHARE, carry_share=CARRY_SHARE,
    ),
)  # fmt: skip
PICK = _with_chain(
    object_skill,
    partial(
        object_skill, from_fridge=FROM_FRIDGE, from_drawer=FROM_DRAWER, slid=SLID,
        anywhere_share=PICK_ANYWHERE, **_chain_shares,
    ),
    reach=partial(object_skill, reach_share=REACH_SHARE),
)  # fmt: skip
PLACE = _with_chain(
    _place,
    partial(_place, into_fridge=INTO_FRIDGE, anywhere_share=PLACE_ANYWHERE, **_chain_shares),
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
