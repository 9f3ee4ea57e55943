"""Readable descriptions of an episode: plan steps, stages, and what went wrong.

    place(any_targets|1, TARGET_any_targets|1)     gelatin box -> sofa
    open_drawer(cab_push_point_5)                  open the drawer
    stage_3                                        3 of 5 placed
    time_limit, at that step                       ran out of time while placing the gelatin box

On the left are the forms of agents and files. Any other line is returned unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rearrange.planner.home.facts import goal_name
from rearrange.sim.home.furniture import MARKERS
from rearrange.skills.definition import SKILLS, Phrases
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec, Target

STEP = re.compile(r"([^\s():]+)\(([^()]*)\)")  # names of your own may have hyphens
FAILED_STEP = re.compile(r"([^\s():]+\([^()]*\)): (.*)", re.DOTALL)
STAGE = re.compile(r"stage_(\d+)(_5)?")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
FURNITURE = {"refrigerator": "fridge", "tvstand": "TV stand", "kitchen counter": "counter"}
"""Readable names for receptacles with unusual ones."""

OUT_OF_TIME, WRONG_THING = "ran out of time", "picked up the wrong thing"
MISHAPS = {
    "out of time": OUT_OF_TIME,
    "time_limit": OUT_OF_TIME,
    "force": "pressed too hard",
    "no reach": "could not reach far enough",
    "object lost": "lost what it held",
    "not at its place": "let go too far from the place",
    "no way around the door": "found no way around the door",
    "no free floor near the goal": "found no free floor near the goal",
    "no way to the goal": "found no way to the goal",
    "no way to rest": "found no way back for the arm",
    "no contact": "touched nothing",
    "no free arm motion": "found no free way for the arm",
    "stuck": "got stuck",
    "the base is stuck": "got stuck",
    "the base is blocked": "was blocked",
}
"""Failures that are followed by "while" and the step."""
ENDS = {
    "wrong_object": WRONG_THING,
    "wrong object": WRONG_THING,
    "dropped": "dropped {thing}",
    "hold_violation": "lost its hold",
    "stop_without_success": "stopped before {done}",
    "stopped too early": "stopped before {done}",
    "ended without success": "failed at {doing}",
    "no plan": "found no plan",
}
"""Failures that already name their step."""
EVERYTHING = Phrases("tidy up", "tidying up", "everything was in its place")


class Names(NamedTuple):
    """A target by the names that files have."""

    kind: str
    """Of the object: 009_gelatin_box."""
    start_receptacle: str
    goal_receptacle: str


def names_of(episode: EpisodeSpec) -> dict[str, Names]:
    """The targets of an episode by name; for a task of one skill at most its own."""
    targets: Sequence[Target] = episode.targets
    if not TASKS[episode.task].is_planned:
        index = episode.target_index
        targets = targets[index : index + 1] if episode.marker is None else ()
    return {
        t.name: Names(episode.scene.objects[t.object].kind, t.start_receptacle, t.goal_receptacle)
        for t in targets
    }


def running_step(episode: EpisodeSpec, status: str) -> str:
    """The current step of an agent with this status: of a plan, or the task's own skill.

    Empty if there is none or it is unknown.
    """
    step = status.partition(": ")[0]
    if TASKS[episode.task].is_planned:
        return step if _parsed(step) else ""
    skill = next((name for name, s in SKILLS.items() if s.task == episode.task), episode.task)
    if episode.marker is not None:
        return f"{skill}({episode.marker})"
    name = episode.targets[episode.target_index].name
    if skill == "place":
        return f"place({name}, {goal_name(name)})"
    return f"{skill}({goal_name(name) if episode.start_holding else name})"


def any_step(task: str) -> str:
    """The step of a task of one skill; empty for other tasks."""
    return next((f"{name}()" for name, skill in SKILLS.items() if skill.task == task), "")


class Descriptions:
    """Describes steps and failures of one episode; without targets, of any: "the second object".

    Args:
        targets: by name, see `names_of`.
    """

    def __init__(self, targets: Mapping[str, Sequence[str]] | None = None) -> None:
        self._targets = {name: Names(*target) for name, target in (targets or {}).items()}
        self._objects = _disambiguated({n: plain(t.kind) for n, t in self._targets.items()})

    def step(self, line: str) -> str:
        """A step of a plan in the imperative."""
        return self._said(line, "do", line)

    def doing(self, line: str) -> str:
        """The same in progress; empty for anything but a step."""
        return self._said(line, "doing", "")

    def plan_line(self, line: str) -> str:
        """A step with its status mark in front."""
        mark = line[:2] if line[1:2] == " " and line[0] in "+x> " else ""
        return mark + self.step(line[len(mark) :])

    def status(self, status: str) -> str:
        """A step and, after a colon, the current motion."""
        step, colon, phase = status.partition(": ")
        return self.step(step) + colon + phase

    def failure(self, label: str, step: str = "") -> str:
        """What went wrong.

        Args:
            label: from agents and rules: "force", "pick(any_targets|2): no reach".
            step: the running one; a step in the label takes precedence.
        """
        if match := FAILED_STEP.fullmatch(label):
            step, label = match.groups()
        if label in ENDS:
            forms = ("doing", "done")
            named = {form: self._said(step, form, getattr(EVERYTHING, form)) for form in forms}
            text = ENDS[label].format(thing=self._thing_of(step), **named)
            is_of_pick = not step or step.startswith("pick(")
            return text if is_of_pick else text.replace("picked up", "took hold of")
        what, doing = MISHAPS.get(label, label), self.doing(step)
        return f"{what} while {doing}" if doing else what

    def _said(self, line: str, form: str, otherwise: str) -> str:
        """A step in one of the forms of its skill's phrases."""
        if (parsed := _parsed(line)) is None:
            return otherwise
        skill, entities = parsed
        phrases = _phrases(skill)
        first = entities[0] if entities else ""
        what = self._name(first)
        place = self._name(entities[1] if len(entities) > 1 else goal_name(first))
        return getattr(phrases, form).format(what=what, thing=f"the {what}", place=place)

    def _thing_of(self, step: str) -> str:
        parsed = _parsed(step)
        if parsed is None or not parsed[1]:
            return "the object"
        thing = self._name(parsed[1][0].removeprefix(goal_name("")))
        return f"the {thing}"

    def _name(self, entity: str) -> str:
        """An entity without an article."""
        if entity in MARKERS:
            return "fridge" if "fridge" in MARKERS[entity] else "drawer"
        name = entity.removeprefix(goal_name(""))
        if not name:
            return "object"
        if name not in self._targets:
            place = name.rpartition("|")[2]
            thing = f"{_ordinal(int(place))} object" if place.isdecimal() else name
            return thing if name == entity else f"{thing}'s place"
        if name != entity:
            return furniture(self._targets[name].goal_receptacle)
        return self._objects[name]


def describe_stages(names: Iterable[str]) -> dict[str, str]:
    """Name -> description of a task's stages; all must be given."""
    names = list(names)
    found = {name: STAGE.fullmatch(name) for name in names}
    total = max((int(match[1]) for match in found.values() if match), default=0)
    return {
        name: name.replace("_", " ") if match is None
        else f"{int(match[1]) + bool(match[2])} of {total} {'picked up' if match[2] else 'placed'}"
        for name, match in found.items()
    }  # fmt: skip


def describe_progress(stages: Mapping[str, bool]) -> str:
    """Progress of a task of several stages; empty without stages."""
    described = describe_stages(stages)
    reached = [described[name] for name, is_reached in stages.items() if is_reached]
    if reached:
        return reached[-1]
    last = next(reversed(described.values()), "")
    return re.sub(r"^\d+", "0", last) if any(map(STAGE.fullmatch, stages)) else ""


def plain(kind: str) -> str:
    """An object's kind: 009_gelatin_box -> gelatin box."""
    return re.sub(r"^\d+_", "", kind).replace("_", " ")


def furniture(receptacle: str) -> str:
    """The furniture of a receptacle: receptacle_aabb_Tbl1_Top1_frl_apartment_table_01 -> table."""
    name = receptacle.removeprefix("receptacle_aabb_")
    _, own, rest = name.partition("frl_apartment_")
    if "drawer" in name:
        return "drawer"
    if not own:
        rest = name.partition("_")[0]
    label = re.sub(r"[_\d]+", " ", rest).strip()
    return FURNITURE.get(label, label) or name


def _parsed(line: str) -> tuple[str, list[str]] | None:
    """Skill and entities of a step; None for anything else."""
    if match := STEP.fullmatch(line):
        return match[1], [entity.strip() for entity in match[2].split(",") if entity.strip()]
    return None


def _phrases(shown: str) -> Phrases:
    """Phrases of a skill, by its name or its name in plans."""
    for name, skill in SKILLS.items():
        if shown in (name, *(operator.shown for operator in skill.operators.values())):
            shown = name
            if skill.phrases is not None:
                return skill.phrases
    name = shown.replace("_", " ")
    return Phrases(f"{name}: {{what}}", f"at {name}: {{what}}", f"{name} had worked")


def _disambiguated(names: Mapping[str, str]) -> dict[str, str]:
    """Names shared by several get an ordinal: "first bowl"."""
    count, seen = Counter(names.values()), Counter[str]()
    found: dict[str, str] = {}
    for key, name in names.items():
        found[key] = f"{_ordinal(seen[name])} {name}" if count[name] > 1 else name
        seen[name] += 1
    return found


def _ordinal(place: int) -> str:
    return ORDINALS[place] if place < len(ORDINALS) else f"{place + 1}th"
