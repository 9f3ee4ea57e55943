"""GroundTask -> integers: a state as bits of one int, an action as bit masks and index lists.

    bit i of a state = fact i holds

Only facts that can change and are needed, by the goals or by preconditions of actions that lead to
them, get a number. A fact that is needed negatively gets a second number, which holds when the
first does not, so that search and heuristics see only positive preconditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rearrange.errors import UserError
from rearrange.planner.strips.grounding import GroundTask
from rearrange.planner.strips.pddl import Fact, GroundAction, State, atom_text

MAX_BITS = 2_000_000_000
"""Facts x actions: the masks of all actions take three bits each, some 750 MB."""

Literal = tuple[Fact, bool]
"""A fact, and whether it is wanted true."""
Step = tuple[GroundAction, list[Literal]]
"""An action, and its preconditions that may change."""


@dataclass(frozen=True)
class Operator:
    """One action. Masks for the search, index lists for the heuristics."""

    action: GroundAction
    preconditions: tuple[int, ...]
    adds: tuple[int, ...]
    precondition_mask: int
    add_mask: int
    keep_mask: int  # all facts but the deleted ones

    def is_applicable(self, state: int) -> bool:
        return state & self.precondition_mask == self.precondition_mask

    def apply(self, state: int) -> int:
        return state & self.keep_mask | self.add_mask


@dataclass(frozen=True)
class EncodedTask:
    literals: tuple[Literal, ...]  # by fact number
    init: int
    goals: tuple[int, ...]  # in the order of the problem, positive ones first
    goal_mask: int
    operators: tuple[Operator, ...]
    impossible_goals: tuple[str, ...]  # unreachable goals, as text

    def text(self, fact: int) -> str:
        """A numbered fact as PDDL writes it."""
        return _literal_text(self.literals[fact])


def facts_of(state: int) -> list[int]:
    """The numbers of the facts that hold, ascending."""
    facts: list[int] = []
    while state:
        lowest = state & -state
        facts.append(lowest.bit_length() - 1)
        state ^= lowest
    return facts


def encode(task: GroundTask) -> EncodedTask:
    """The task in numbers, without actions that can never run or never help.

    Raises UserError when facts x actions are more than MAX_BITS.
    """
    added = {fact for action in task.actions for fact in action.add_effects}
    deleted = {fact for action in task.actions for fact in _gone(action)}

    def fixed(literal: Literal) -> bool | None:
        """Whether the literal is always true (True), always false (False), or may change (None)."""
        fact, wanted = literal
        if fact in task.init:
            return None if fact in deleted else wanted
        return None if fact in added else not wanted

    wishes = [(fact, True) for fact in task.goal_pos] + [(fact, False) for fact in task.goal_neg]
    impossible = [literal for literal in wishes if fixed(literal) is False]
    wishes = [literal for literal in wishes if fixed(literal) is None]
    possible: list[Step] = []
    for action in task.actions:
        needs = [(fact, True) for fact in sorted(action.preconditions_pos)]
        needs += [(fact, False) for fact in sorted(action.preconditions_neg)]
        if all(fixed(literal) is not False for literal in needs):
            possible.append((action, [need for need in needs if fixed(need) is None]))
    possible = _relevant(possible, wishes)
    asked = dict.fromkeys(wishes)
    asked.update(dict.fromkeys(need for _, needs in possible for need in needs))
    number = {literal: index for index, literal in enumerate(asked)}
    if len(number) * len(possible) > MAX_BITS:
        raise UserError(
            f"{task.name}: {len(number):,} facts with {len(possible):,} actions are too many, at"
            f" most {MAX_BITS:,} pairs: give the problem fewer objects"
        )
    goals = tuple(number[literal] for literal in wishes)
    return EncodedTask(
        literals=tuple(number),
        init=_mask(i for (fact, wanted), i in number.items() if (fact in task.init) == wanted),
        goals=goals,
        goal_mask=_mask(goals),
        operators=tuple(_operators(possible, number)),
        impossible_goals=tuple(_literal_text(literal) for literal in impossible),
    )


def _gone(action: GroundAction) -> State:
    """What is false afterwards: an action deletes before it adds."""
    return action.del_effects - action.add_effects


def _relevant(possible: Sequence[Step], wishes: Sequence[Literal]) -> list[Step]:
    """The actions that bring about a goal, or what an action needs that does, and so on."""
    makers: dict[Literal, list[int]] = {}
    for index, (action, _) in enumerate(possible):
        for fact in action.add_effects:
            makers.setdefault((fact, True), []).append(index)
        for fact in _gone(action):
            makers.setdefault((fact, False), []).append(index)
    stack, asked = list(wishes), set(wishes)
    kept: set[int] = set()
    while stack:
        for index in makers.get(stack.pop(), ()):
            if index not in kept:
                kept.add(index)
                new = [need for need in possible[index][1] if need not in asked]
                asked.update(new)
                stack.extend(new)
    return [possible[index] for index in sorted(kept)]


def _operators(possible: Sequence[Step], number: dict[Literal, int]) -> Iterable[Operator]:
    everything = (1 << len(number)) - 1
    seen: set[tuple[tuple[int, ...], frozenset[int], frozenset[int]]] = set()
    for action, needs in possible:
        changes = [(f, True) for f in action.add_effects] + [(f, False) for f in _gone(action)]
        adds = {number[change] for change in changes if change in number}
        dels = {number[f, not v] for f, v in changes if (f, not v) in number}
        preconditions = tuple(number[need] for need in needs)
        adds -= set(preconditions)
        key = (preconditions, frozenset(adds), frozenset(dels))
        # All preconditions and goals are positive now, so an action that adds nothing never helps.
        if not adds or key in seen:
            continue
        seen.add(key)
        yield Operator(
            action,
            preconditions,
            tuple(sorted(adds)),
            _mask(preconditions),
            _mask(adds),
            everything & ~_mask(dels),
        )


def _mask(facts: Iterable[int]) -> int:
    mask = 0
    for fact in facts:
        mask |= 1 << fact
    return mask


def _literal_text(literal: Literal) -> str:
    fact, wanted = literal
    return atom_text(fact) if wanted else f"(not {atom_text(fact)})"
