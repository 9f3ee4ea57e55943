"""Domain and Problem -> GroundTask, with only the actions that a plan could reach.

Facts are discovered as if nothing were ever deleted. A newly found fact is matched with each
precondition it fits, and the action's other preconditions are joined against the facts found so
far, the one with the fewest candidates first. Facts that no action changes are in the start state
or nowhere, so the same join prunes by static predicates. Source: Helmert, Concise finite-domain
representations for PDDL planning tasks, AIJ 173, 2009, section 6 (relaxed reachability).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rearrange.errors import UserError
from rearrange.planner.strips.pddl import (
    EQUALS,
    ROOT,
    ActionSchema,
    Domain,
    Fact,
    GroundAction,
    Problem,
    State,
)

MAX_ACTIONS = 100_000
"""About 200 MB of ground actions."""
MAX_JOIN_STEPS = 3_000_000
"""Variable bindings tried: some 10 s."""

Binding = dict[str, str]


@dataclass(frozen=True)
class GroundTask:
    """What the search needs. Actions stand in the order of the domain, then of the objects."""

    name: str
    init: State
    goal_pos: tuple[Fact, ...]
    goal_neg: tuple[Fact, ...]
    actions: tuple[GroundAction, ...]


def ground(domain: Domain, problem: Problem) -> GroundTask:
    """All actions that are reachable when deletes are ignored.

    Raises UserError when there are more than MAX_ACTIONS, or the joins take MAX_JOIN_STEPS.
    """
    grounder = _Grounder(domain, problem)
    grounder.run()
    objects = {name: index for index, name in enumerate(problem.objects)}
    schemas = {name: index for index, name in enumerate(domain.actions)}
    actions = sorted(
        grounder.found.values(),
        key=lambda a: (schemas[a.name], [objects[o] for o in a.arguments]),
    )
    return GroundTask(
        problem.name, problem.init, problem.goal_pos, problem.goal_neg, tuple(actions)
    )


class _Grounder:
    def __init__(self, domain: Domain, problem: Problem) -> None:
        self.domain, self.problem = domain, problem
        self.found: dict[tuple[str, ...], GroundAction] = {}
        self._steps = 0
        self._changing = {
            atom[0]
            for schema in domain.actions.values()
            for atom in (*schema.add_effects, *schema.del_effects)
        }
        self._members: dict[str, list[str]] = {name: [] for name in (ROOT, *domain.parents)}
        for name, kind in problem.objects.items():
            while kind != ROOT:
                self._members[kind].append(name)
                kind = domain.parents[kind]
            self._members[ROOT].append(name)
        self._member_sets = {name: frozenset(members) for name, members in self._members.items()}
        # Found facts by predicate, and by predicate, argument position and object there.
        self._facts: dict[tuple[str | int, ...], list[Fact]] = defaultdict(list)
        self._seen: set[Fact] = set()
        self._queue: deque[Fact] = deque()
        # predicate -> (schema, its positive atoms, which of them has the predicate)
        self._triggers: dict[str, list[tuple[ActionSchema, list[Fact], int]]] = defaultdict(list)

    def run(self) -> None:
        for schema in self.domain.actions.values():
            atoms = [atom for atom in schema.preconditions_pos if atom[0] != EQUALS]
            for index, atom in enumerate(atoms):
                self._triggers[atom[0]].append((schema, atoms, index))
            if not atoms:
                self._complete(schema, {}, [])
        for fact in sorted(self.problem.init):
            self._discover(fact)
        while self._queue:
            fact = self._queue.popleft()
            self._facts[(fact[0],)].append(fact)
            for position, argument in enumerate(fact[1:], start=1):
                self._facts[fact[0], position, argument].append(fact)
            for schema, atoms, index in self._triggers[fact[0]]:
                binding = self._unify(schema, atoms[index], fact, {})
                if binding is not None:
                    self._complete(schema, binding, atoms[:index] + atoms[index + 1 :])

    def _discover(self, fact: Fact) -> None:
        if fact not in self._seen:
            self._seen.add(fact)
            self._queue.append(fact)

    def _unify(
        self, schema: ActionSchema, atom: Fact, fact: Fact, binding: Binding
    ) -> Binding | None:
        """`binding` extended so that `atom` becomes `fact`, or None."""
        extended = dict(binding)
        types = dict(schema.parameters)
        for term, argument in zip(atom[1:], fact[1:], strict=True):
            if term[0] == "?":
                if argument not in self._member_sets[types[term]]:
                    return None
                term = extended.setdefault(term, argument)
            if term != argument:
                return None
        return extended if self._allowed(schema, extended) else None

    def _complete(self, schema: ActionSchema, binding: Binding, atoms: list[Fact]) -> None:
        for full in self._joins(schema, binding, atoms):
            key = (schema.name, *(full[variable] for variable, _ in schema.parameters))
            if key in self.found:
                continue
            if len(self.found) >= MAX_ACTIONS:
                raise UserError(
                    f"the problem may have at most {MAX_ACTIONS:,} ground actions, {schema.name}"
                    " goes beyond: give it fewer objects, or its actions fewer parameters"
                )
            action = _instantiate(schema, full)
            self.found[key] = action
            for fact in action.add_effects:
                self._discover(fact)

    def _joins(
        self, schema: ActionSchema, binding: Binding, atoms: list[Fact]
    ) -> Iterator[Binding]:
        """All bindings of all parameters that make `atoms` found facts."""
        self._steps += 1 + len(atoms) // 8  # each atom left is looked at
        if self._steps > MAX_JOIN_STEPS:
            raise UserError(
                f"grounding action {schema.name} takes more than {MAX_JOIN_STEPS:,} steps: give the"
                " problem fewer objects, or the action fewer parameters"
            )
        if atoms:
            candidates = [self._candidates(atom, binding) for atom in atoms]
            best = min(range(len(atoms)), key=lambda i: len(candidates[i]))
            rest = atoms[:best] + atoms[best + 1 :]
            # Not the list itself: it may grow while the caller looks at what is yielded.
            for fact in tuple(candidates[best]):
                extended = self._unify(schema, atoms[best], fact, binding)
                if extended is not None:
                    yield from self._joins(schema, extended, rest)
            return
        free = [(v, kind) for v, kind in schema.parameters if v not in binding]
        if not free:
            if self._allowed(schema, binding):
                yield binding
            return
        variable, kind = free[0]
        for name in self._members[kind]:
            extended = binding | {variable: name}
            if self._allowed(schema, extended):
                yield from self._joins(schema, extended, [])

    def _candidates(self, atom: Fact, binding: Binding) -> list[Fact]:
        lists = [self._facts.get((atom[0],), [])]
        for position, term in enumerate(atom[1:], start=1):
            argument = term if term[0] != "?" else binding.get(term)
            if argument is not None:
                lists.append(self._facts.get((atom[0], position, argument), []))
        return min(lists, key=len)

    def _allowed(self, schema: ActionSchema, binding: Mapping[str, str]) -> bool:
        """Whether `=`, and `not` of facts that never change, hold as far as variables are bound."""
        for atom in schema.preconditions_pos:
            if atom[0] == EQUALS:
                left, right = _bind(atom, binding)[1:]
                if left != right and "?" not in (left[0], right[0]):
                    return False
        for atom in schema.preconditions_neg:
            bound = _bind(atom, binding)
            if any(term[0] == "?" for term in bound[1:]):
                continue
            if atom[0] == EQUALS:
                if bound[1] == bound[2]:
                    return False
            elif atom[0] not in self._changing and bound in self.problem.init:
                return False
        return True


def _bind(atom: Fact, binding: Mapping[str, str]) -> Fact:
    return tuple(binding.get(term, term) for term in atom)


def _instantiate(schema: ActionSchema, binding: Mapping[str, str]) -> GroundAction:
    def bind(atoms: tuple[Fact, ...]) -> State:
        return frozenset(_bind(atom, binding) for atom in atoms if atom[0] != EQUALS)

    return GroundAction(
        schema.name,
        tuple(binding[variable] for variable, _ in schema.parameters),
        bind(schema.preconditions_pos),
        bind(schema.preconditions_neg),
        bind(schema.add_effects),
        bind(schema.del_effects),
    )
