"""Episodes of others in our homes, as far as what they name has a counterpart here.

    home         one of the same name; ours has other measures
    object       the kind of the same name
    receptacle   the one of the same name, of furniture with the same handle
    joint        the drawer or door with the same link number
    task         the one whose targets have the same names

A place in their apartment says nothing in ours. So an object keeps its kind, its receptacle and its
part in the task, and its place there is drawn; goals likewise. Clutter without a counterpart is
left out, a target without one leaves the episode out. All of that is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rearrange.errors import UserError, one_line
from rearrange.habitat.reading import TheirEpisode
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import Layout, Receptacle
from rearrange.sim.home.objects import KINDS, NUM_SLOTS
from rearrange.sim.homes.layout import SPLITS, layout_ids
from rearrange.tasks.episodes.draft import Draft, DraftRejected
from rearrange.tasks.episodes.placing import start_anywhere
from rearrange.tasks.episodes.schema import LINKS, episode_from_json, episode_to_json
from rearrange.tasks.rules.episode import EpisodeSpec

_TRIES = 10
_TASK_OF_NAMES: dict[tuple[str, ...], str] = {  # by the sorted names of its targets
    ("goal0|0",): "rearrange_easy",
    tuple(f"any_targets|{i}" for i in range(5)): "tidy_house",
    tuple(f"obj{i}_target|{i}" for i in range(3)): "prepare_groceries",
    ("bowl_target|0", "fruit_target|1"): "set_table",
}  # hab-spec 11
_JOINT_OF_LINK = {(handle, str(link)): joint for joint, (handle, link, _) in LINKS.items()}
_SPLIT_OF_HOME = {name: split for split in SPLITS for name in layout_ids(split)}


@dataclass
class Gaps:
    """What has no counterpart: how often, by what it is and its name."""

    found: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, what: str, name: str) -> None:
        """Counts one."""
        self.found[what, name] += 1

    def lines(self) -> list[str]:
        """One line for each name, the most frequent first within each kind."""
        order = sorted(self.found.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
        return [f"{what} {one_line(name)}: {count}" for (what, name), count in order]


def counterpart(episode: TheirEpisode, gaps: Gaps) -> EpisodeSpec | None:
    """The episode in our home, or None; what is missing is counted in `gaps`.

    Equal episodes give equal ones.
    """
    if episode.ours is not None:
        return episode.ours
    names = sorted(target.name for target in episode.targets)
    task, split = _TASK_OF_NAMES.get(tuple(names)), _SPLIT_OF_HOME.get(episode.scene)
    if task is None:
        gaps.add("task", " ".join(names) or "without targets")
    if split is None:
        gaps.add("home", episode.scene)
    for marker in episode.markers:
        if marker not in fur.MARKERS:
            gaps.add("marker", marker)
    opening = _opening(episode, gaps)
    if task is None or split is None:
        return None
    rng = np.random.default_rng([episode.number, 31])
    for attempt in range(_TRIES):
        draft = Draft(episode.scene, rng, opening)
        counted = gaps if attempt == 0 else Gaps()
        try:
            if not _fill(draft, episode, counted):
                return None
            scene = draft.scene(lambda draft=draft: start_anywhere(draft.placer.plan, rng))
        except DraftRejected:
            continue
        spec = EpisodeSpec(task, split, 0, episode.number, scene, tuple(draft.targets))
        return _checked(spec, gaps)
    gaps.add("place", "for all of an episode's objects and the robot")
    return None


def _checked(spec: EpisodeSpec, gaps: Gaps) -> EpisodeSpec | None:
    """The episode, if a file of ours can hold it."""
    try:
        return episode_from_json(episode_to_json(spec), "")
    except UserError as error:
        gaps.add("episode", str(error))
        return None


def _opening(episode: TheirEpisode, gaps: Gaps) -> dict[str, float]:
    """Our joints' start states."""
    opening = {}
    for (handle, link), value in episode.joints.items():
        joint = _JOINT_OF_LINK.get((handle, link))
        if joint is None:
            gaps.add("joint", f"{handle} link {link}")
            continue
        highest = fur.DRAWER_TRAVEL if joint in fur.DRAWERS else fur.FRIDGE_DOOR_RANGE
        opening[joint] = min(max(value, 0.0), highest)
    return opening


def _fill(draft: Draft, episode: TheirEpisode, gaps: Gaps) -> bool:
    """Puts targets and clutter into a draft; False if a target has no counterpart.

    Raises DraftRejected where there is no room.
    """
    layout = draft.layout
    is_complete = True
    for target in episode.targets:
        kind = episode.objects[target.object].kind
        starts = _places(layout, episode.objects[target.object].place)
        starts = starts or _at(layout, target.start)
        goals = _at(layout, target.end)
        if kind not in KINDS:
            gaps.add("object", kind)
        if not starts:
            gaps.add("receptacle", episode.objects[target.object].place or _words(target.start))
        if not goals:
            gaps.add("receptacle", _words(target.end))
        is_complete = is_complete and kind in KINDS and bool(starts) and bool(goals)
    moved = {target.object for target in episode.targets}
    clutter = []
    for number, thing in enumerate(episode.objects):
        if number in moved:
            continue
        places = _places(layout, thing.place)
        if thing.kind not in KINDS:
            gaps.add("object", thing.kind)
        elif not places:
            gaps.add("receptacle", thing.place or "none named")
        else:
            clutter.append((thing.kind, places))
    if not is_complete:
        return False
    for target in episode.targets:
        thing = episode.objects[target.object]
        starts = _places(layout, thing.place) or _at(layout, target.start)
        draft.add_target(target.name, [thing.kind], starts, _at(layout, target.end))
    room = NUM_SLOTS - len(draft.targets)
    for _ in clutter[room:]:
        gaps.add("slot", f"beyond {NUM_SLOTS} objects")
    for kind, places in clutter[:room]:
        draft.add_clutter(1, places, [kind])
    return True


def _places(layout: Layout, place: str | None) -> list[Receptacle]:
    """The receptacle that "furniture handle|receptacle" names, if it is there."""
    handle, _, name = (place or "").partition("|")
    return [r for r in layout.receptacles if r.parent == handle and r.name == name]


def _at(layout: Layout, where: tuple[str, int | None] | None) -> Sequence[Receptacle]:
    """The receptacles of furniture, or of one of its links. A negative link is its body."""
    if where is None:
        return []
    handle, link = where
    own = [r for r in layout.receptacles if r.parent == handle]
    if link is None or link < 0:
        return [r for r in own if r.link is None]
    return [r for r in own if r.link is not None and LINKS[r.link][1] == link]


def _words(where: tuple[str, int | None] | None) -> str:
    if where is None:
        return "none named"
    handle, link = where
    return handle if link is None else f"{handle} link {link}"
