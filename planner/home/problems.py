"""The home's problems as PDDL text, and its plans as skills.

`task_problem` writes a problem from plain data: at an episode's start, and mid-episode from the
facts known then. Entity names such as `any_targets|0` are HAB's; `|` is not allowed in PDDL, which
is case-insensitive, so `TARGET_any_targets|0` is written `target_any_targets_0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from rearrange.errors import UserError
from rearrange.planner.strips.pddl import Domain, Fact, GroundAction, atom_text, parse_domain
from rearrange.skills.definition import SKILLS, SkillDefinition

DOMAIN_PATH = Path(__file__).with_name("domain.pddl")
ROBOT = "robot_0"
SOMEWHERE = "somewhere"
FRIDGE = "fridge_push_point"
"""HAB's marker of the fridge; the container "fridge" means it too."""
RECEPTACLE_STATES = ("open", "closed", "between")


@cache
def home_domain() -> Domain:
    """The parsed `domain.pddl`."""
    return parse_domain(DOMAIN_PATH.read_text(encoding="utf-8"), DOMAIN_PATH.name)


def skill_of(action: GroundAction, first: Iterable[str] = ()) -> SkillDefinition:
    """The skill that carries out an action, of several one of the names in `first`.

    Raises UserError if there is none.
    """
    for name in (*first, *SKILLS):
        if action.name in SKILLS[name].operators:
            return SKILLS[name]
    known = ", ".join(name for skill in SKILLS.values() for name in skill.operators)
    raise UserError(f"{action.name} is not an action of the home; it has {known}")


def skill_call(
    action: GroundAction, first: Iterable[str] = ()
) -> tuple[str, tuple[str, ...]]:  # fmt: skip
    """An action as in printed plans, PDDL names: ("navigate", ("bowl_0",)). `first` and errors as
    above."""
    skill = skill_of(action, first)
    operator = skill.operators[action.name]
    arguments = tuple(action.arguments[place] for place in operator.arguments)
    return operator.shown or skill.name, arguments


def entities_of(
    skill: str, arguments: Iterable[str], entities: Mapping[str, str]
) -> tuple[str, ...]:
    """The entities that a skill acts on; `entities`: PDDL name -> entity.

    Raises UserError if a skill's `operators` choose an argument that is none.
    """
    found: list[str] = []
    for argument in arguments:
        if argument not in entities:
            raise UserError(
                f"{skill} acts on {argument}, which is no object, goal or handle: "
                f"known are {', '.join(entities)}"
            )
        found.append(entities[argument])
    return tuple(found)


def pddl_name(entity: str) -> str:
    """An entity's name in PDDL: `TARGET_any_targets|0` -> `target_any_targets_0`."""
    name = re.sub(r"[^a-z0-9_-]", "_", entity.lower())
    return name if name[:1].isalpha() else f"n{name}"


def entity_names(entities: Iterable[str]) -> dict[str, str]:
    """PDDL name -> entity, the inverse. Raises UserError if two entities share a PDDL name."""
    table: dict[str, str] = {}
    for entity in entities:
        name = pddl_name(entity)
        if table.setdefault(name, entity) != entity:
            raise UserError(f"{entity} and {table[name]} are both {name} in PDDL: rename one")
    return table


def problem_text(
    name: str,
    objects: Mapping[str, str],
    init: Iterable[Fact],
    goal: Iterable[Fact],
    domain_name: str = "rearrange",
) -> str:
    """A PDDL problem. `objects` is name -> type; all names as PDDL has them."""
    by_type: dict[str, list[str]] = {}
    for entity, kind in objects.items():
        by_type.setdefault(kind, []).append(entity)
    typed = [f"    {' '.join(names)} - {kind}" for kind, names in by_type.items()]
    return "\n".join(
        [
            f"(define (problem {pddl_name(name)})",
            f"  (:domain {domain_name})",
            "  (:objects",
            *typed,
            "  )",
            "  (:init",
            *(f"    {atom_text(fact)}" for fact in init),
            "  )",
            "  (:goal (and",
            *(f"    {atom_text(fact)}" for fact in goal),
            "  ))",
            ")",
            "",
        ]
    )


def task_problem(
    name: str,
    movables: Mapping[str, str | None],
    goals: Mapping[str, str | None],
    pairs: Sequence[tuple[str, str]],
    receptacles: Mapping[str, str],
    *,
    held: str | None = None,
    robot_at: str | None = None,
    placed: Mapping[str, str] | None = None,
    final_states: Mapping[str, str] | None = None,
    more_facts: Iterable[Fact] = (),
    more_goals: Iterable[Fact] = (),
    robot: str = ROBOT,
) -> str:
    """The home's problem as PDDL text, from entity names.

    `movables` and `goals`: name -> the receptacle it lies in, None for a table or the floor.
    `pairs`: (movable, its goal), in the order in which they should be served.
    `receptacles`: marker -> "open", "closed" or "between". A name with "fridge" is a fridge, else
    a cab. `held`: the movable in the gripper. `robot_at`: the entity that the robot is at, or None.
    `placed`: movable -> the goal it is at now, the right one or not; it is in the receptacle of
    that goal.
    `final_states`: marker -> "open" or "closed", wanted at the end besides the pairs.
    `more_facts`, `more_goals`: of predicates that skills bring, about entities of the above.
    Raises UserError if a name is unknown or a movable is in two places.
    """
    placed = placed or {}
    receptacles = {_marker(marker): state for marker, state in receptacles.items()}
    final_states = {_marker(marker): state for marker, state in (final_states or {}).items()}
    robot_at = _marker(robot_at) if robot_at else None
    _check_known("held", [held] if held else [], movables)
    _check_known("placed", placed, movables)
    _check_known("goal of placed", placed.values(), goals)
    _check_known("movable of pairs", [movable for movable, _ in pairs], movables)
    _check_known("goal of pairs", [goal for _, goal in pairs], goals)
    _check_known("final_states", final_states, receptacles)
    if held is not None and held in placed:
        raise UserError(f"{held} cannot be held and lie at {placed[held]}: give one of the two")
    movables = {m: movables[m] for m in [*(m for m, _ in pairs), *movables]}
    kinds = {robot: "robot"}
    kinds |= {movable: "movable" for movable in movables}
    kinds |= {goal: "goal" for goal in goals}
    kinds |= {marker: "fridge" if _is_fridge(marker) else "cab" for marker in receptacles}
    _check_known("robot_at", [robot_at] if robot_at else [], kinds)
    if len(kinds) != 1 + len(movables) + len(goals) + len(receptacles):
        raise UserError("a movable, a goal, a receptacle and the robot must not share a name")
    entity_names(kinds)  # no two may share a PDDL name

    facts: list[Fact] = [("robot_at", robot_at or SOMEWHERE, robot)]
    facts.append(("holding", held, robot) if held else ("not_holding", robot))
    for movable, container in movables.items():
        if movable == held:
            continue
        if movable in placed:
            container = goals[placed[movable]]
        facts.append(("object_at", movable, placed.get(movable, SOMEWHERE)))
        facts += _inside("in", movable, container, receptacles)
    for goal, container in goals.items():
        facts += _inside("goal_in", goal, container, receptacles)
    for marker, state in receptacles.items():
        if state not in RECEPTACLE_STATES:
            raise UserError(
                f"the state of {marker} must be one of {', '.join(RECEPTACLE_STATES)}, got {state}"
            )
        if state != "between":
            facts.append(_state_fact(marker, state))
    facts += more_facts
    wanted: list[Fact] = [("object_at", movable, goal) for movable, goal in pairs]
    wanted += [("not_holding", robot), *_wanted_states(final_states), *more_goals]
    return problem_text(
        name,
        {pddl_name(entity): kind for entity, kind in kinds.items()},
        map(pddl_fact, facts),
        map(pddl_fact, wanted),
    )


def _wanted_states(final_states: Mapping[str, str]) -> Iterator[Fact]:
    """Raises UserError for a receptacle that cannot be a goal."""
    for marker, state in final_states.items():
        if state not in ("open", "closed"):
            raise UserError(f"{marker} can only be requested open or closed, got {state}")
        yield _state_fact(marker, state)


def _marker(container: str) -> str:
    return FRIDGE if container == "fridge" else container


def _is_fridge(marker: str) -> bool:
    return "fridge" in marker


def _state_fact(marker: str, state: str) -> Fact:
    adjective = {"open": "opened", "closed": "closed"}[state]
    return (f"{adjective}_{'fridge' if _is_fridge(marker) else 'cab'}", marker)


def _inside(
    predicate: str, entity: str, container: str | None, receptacles: Mapping[str, str]
) -> list[Fact]:
    if container is None:
        return []
    container = _marker(container)
    _check_known(f"container of {entity}", [container], receptacles)
    return [(predicate, entity, container), ("enclosed", entity)]


def _check_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise UserError(f"{what}: {name} is unknown; known are {', '.join(known) or 'none'}")


def pddl_fact(fact: Fact) -> Fact:
    """A fact about entities, by their names in PDDL; one that has these stays as it is."""
    return (fact[0].lower(), *map(pddl_name, fact[1:]))
