"""PDDL text -> Domain and Problem: STRIPS with typing, negative preconditions and equality.

pddlpy parses (`syntax.py`); this module reads its tree and checks each name against its
declaration. pddlpy's own listeners are not used: they lose supertypes, declared predicates and
`not` in goals. All names are lower case afterwards, as PDDL does not mind the case. A name that
begins with `?` is a variable. Source of the language: Fox and Long, PDDL 2.1, JAIR 20, 2003.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from antlr4 import ParserRuleContext

from rearrange.planner.strips.syntax import fail, parse_tree

Fact = tuple[str, ...]
"""Predicate and arguments: ("holding", "apple", "robot_0")."""
State = frozenset[Fact]
"""The facts that hold; all others do not."""

ROOT = "object"
"""The type above all others, and of whatever has no type."""
EQUALS = "="

MAX_TYPE_DEPTH = 100  # types above each other; each check of a type walks up this way
MAX_PARAMETERS = 50  # of an action; grounding recurses over them
MAX_PRECONDITIONS = 200  # of an action, likewise
_MAX_NAMES = 12  # in an error's list of what is known


@dataclass(frozen=True)
class ActionSchema:
    """An action with variables. Preconditions may hold `=`; effects never do."""

    name: str
    parameters: tuple[tuple[str, str], ...]  # (variable, type)
    preconditions_pos: tuple[Fact, ...]
    preconditions_neg: tuple[Fact, ...]
    add_effects: tuple[Fact, ...]
    del_effects: tuple[Fact, ...]


@dataclass(frozen=True)
class GroundAction:
    """An action with objects in place of the variables, and without `=`. Deletes before it adds."""

    name: str
    arguments: tuple[str, ...]
    preconditions_pos: State
    preconditions_neg: State
    add_effects: State
    del_effects: State

    def __str__(self) -> str:
        return atom_text((self.name, *self.arguments))


@dataclass(frozen=True)
class Domain:
    name: str
    parents: Mapping[str, str]  # type -> the type above it; `object` has none
    constants: Mapping[str, str]  # name -> type
    predicates: Mapping[str, tuple[str, ...]]  # name -> types of the arguments
    actions: Mapping[str, ActionSchema]

    def is_subtype(self, name: str, ancestor: str) -> bool:
        """Whether each `name` is an `ancestor`. Both must be declared."""
        while name != ancestor and name != ROOT:
            name = self.parents[name]
        return name == ancestor


@dataclass(frozen=True)
class Problem:
    name: str
    domain_name: str
    objects: Mapping[str, str]  # name -> type; the domain's constants are among them
    init: State
    goal_pos: tuple[Fact, ...]  # in the order of the text
    goal_neg: tuple[Fact, ...]


def atom_text(atom: Fact) -> str:
    """As PDDL writes it: (holding apple robot_0)."""
    return f"({' '.join(atom)})"


def parse_domain(text: str, source: str = "domain") -> Domain:
    """The domain in the text. Raises UserError naming `source` and line."""
    tree = parse_tree(text, "domain", source)
    reader = _Reader(source)
    reader.read_types(tree)
    if tree.constantsDef():
        reader.read_objects(tree.constantsDef().typedNameList())
    if tree.predicatesDef():
        reader.read_predicates(tree.predicatesDef().atomicFormulaSkeleton())
    actions: dict[str, ActionSchema] = {}
    for structure in tree.structureDef():
        schema = reader.read_action(structure.actionDef())
        if schema.name in actions:
            fail(source, structure, f"action {schema.name} is declared twice")
        actions[schema.name] = schema
    name = tree.domainName().name().getText()
    return Domain(name, reader.parents, reader.objects, reader.predicates, actions)


def parse_problem(text: str, domain: Domain, source: str = "problem") -> Problem:
    """The problem in the text, checked against its domain. Raises UserError as parse_domain."""
    tree = parse_tree(text, "problem", source)
    domain_name = tree.problemDomain().name().getText()
    if domain_name != domain.name:
        what = f"the problem is for domain {domain_name}, the domain given is {domain.name}"
        fail(source, tree.problemDomain(), what)
    reader = _Reader(source, domain)
    if tree.objectDecl():
        reader.read_objects(tree.objectDecl().typedNameList())
    init, goal = tree.init(), tree.goal()
    true, false = reader.read_literals((el.nameLiteral() for el in init.initEl()), {})
    for fact in set(true) & set(false):
        fail(source, init, f"{atom_text(fact)} is both true and false at the start")
    goal_pos, goal_neg = reader.read_literals([goal.goalDesc()], {})
    for atom in (*true, *false, *goal_pos, *goal_neg):
        if atom[0] == EQUALS:
            fail(source, goal, "`=` may stand in preconditions only, not in :init or :goal")
    for fact in set(goal_pos) & set(goal_neg):
        fail(source, goal, f"{atom_text(fact)} is wanted both true and false")
    name = tree.problemDecl().name().getText()
    return Problem(name, domain_name, reader.objects, frozenset(true), goal_pos, goal_neg)


class _Reader:
    """Declarations met so far, against which everything that follows is checked."""

    def __init__(self, source: str, domain: Domain | None = None) -> None:
        self.source = source
        self.parents = dict(domain.parents) if domain else {}
        self.objects = dict(domain.constants) if domain else {}
        self.predicates = dict(domain.predicates) if domain else {}
        self._known = domain or Domain("", self.parents, self.objects, self.predicates, {})

    def read_types(self, tree: ParserRuleContext) -> None:
        if tree.typesDef() is None:
            return
        declared = list(_typed(tree.typesDef().typedNameList(), self.source))
        for name, parent, place in declared:
            if name == ROOT:
                if parent != ROOT:
                    fail(self.source, place, f"`{ROOT}` is the topmost type, it has no parent")
            elif self.parents.setdefault(name, parent) != parent:
                fail(self.source, place, f"type {name} is declared twice")
        depths = {ROOT: 0}
        for name, _, place in declared:
            self._measure(name, place, depths)

    def _measure(self, name: str, place: ParserRuleContext, depths: dict[str, int]) -> None:
        """Enters the depths of a type and of those above it; each type is walked over once."""
        way: dict[str, None] = {}
        above = name
        while above not in depths:
            if above in way:
                fail(self.source, place, f"type {name} is its own ancestor")
            way[above] = None
            self._check_type(above, place)
            above = self.parents[above]
        for depth, below in enumerate(reversed(way), start=depths[above] + 1):
            if depth > MAX_TYPE_DEPTH:
                fail(self.source, place, f"type {name} has more than {MAX_TYPE_DEPTH} types above")
            depths[below] = depth

    def _check_type(self, name: str, place: ParserRuleContext) -> None:
        if name != ROOT and name not in self.parents:
            known = _listed([ROOT, *self.parents])
            fail(self.source, place, f"type {name} is not declared; known types: {known}")

    def read_objects(self, names: ParserRuleContext) -> None:
        for name, type_name, place in _typed(names, self.source):
            self._check_type(type_name, place)
            # A problem may repeat a constant of its domain, but not change its type.
            if self.objects.setdefault(name, type_name) != type_name:
                what = f"{name} is declared twice, as {self.objects[name]} and as {type_name}"
                fail(self.source, place, what)

    def read_predicates(self, skeletons: Iterable[ParserRuleContext]) -> None:
        for skeleton in skeletons:
            name = skeleton.predicate().getText()
            if name == EQUALS:
                fail(self.source, skeleton, "`=` is built in and cannot be declared")
            if name in self.predicates:
                fail(self.source, skeleton, f"predicate {name} is declared twice")
            parameters = self._parameters(skeleton.typedVariableList())
            self.predicates[name] = tuple(parameters.values())

    def read_action(self, tree: ParserRuleContext) -> ActionSchema:
        parameters = self._parameters(tree.typedVariableList())
        if len(parameters) > MAX_PARAMETERS:
            what = f"an action may have {MAX_PARAMETERS} parameters, this has {len(parameters)}"
            fail(self.source, tree, what)
        body = tree.actionDefBody()
        wanted = [body.precondition().goalDesc()] if body.precondition() else []
        effect = body.effect()
        changes = [part.pEffect() for part in effect.cEffect()] if effect else []
        add_effects, del_effects = self.read_literals(changes, parameters)
        for atom in (*add_effects, *del_effects):
            if atom[0] == EQUALS:
                fail(self.source, body, "`=` may stand in preconditions only, not in effects")
        needs = self.read_literals(wanted, parameters)
        if (count := len(needs[0]) + len(needs[1])) > MAX_PRECONDITIONS:
            what = f"an action may have {MAX_PRECONDITIONS} preconditions, this has {count}"
            fail(self.source, tree, what)
        return ActionSchema(
            tree.actionSymbol().getText(),
            tuple(parameters.items()),
            *needs,
            add_effects,
            del_effects,
        )

    def _parameters(self, variables: ParserRuleContext) -> dict[str, str]:
        parameters: dict[str, str] = {}
        for name, type_name, place in _typed(variables, self.source):
            self._check_type(type_name, place)
            if name in parameters:
                fail(self.source, place, f"variable {name} is declared twice")
            parameters[name] = type_name
        return parameters

    def read_literals(
        self, formulas: Iterable[ParserRuleContext], variables: Mapping[str, str]
    ) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
        """The atoms of nested `and`s: those that stand plain, those that stand under `not`."""
        atoms: dict[bool, dict[Fact, None]] = {True: {}, False: {}}
        stack = [(formula, True) for formula in reversed(list(formulas))]
        while stack:
            formula, is_positive = stack.pop()
            parts = [child for child in formula.getChildren() if hasattr(child, "getRuleIndex")]
            word = formula.getChild(1).getText() if formula.getChildCount() > 1 else ""
            if word == "not":
                stack.append((parts[0], not is_positive))
            elif word == "and":
                if not is_positive:
                    fail(self.source, formula, "`not` around `and` is a disjunction, not supported")
                stack.extend((part, True) for part in reversed(parts))
            elif word == "":  # a rule around one formula
                stack.append((parts[0], is_positive))
            else:
                atoms[is_positive][self._atom(formula, variables)] = None
        return tuple(atoms[True]), tuple(atoms[False])

    def _atom(self, tree: ParserRuleContext, variables: Mapping[str, str]) -> Fact:
        name, *terms = (child.getText() for child in list(tree.getChildren())[1:-1])
        if name == EQUALS:
            types: tuple[str, ...] = (ROOT, ROOT)
        elif name in self.predicates:
            types = self.predicates[name]
        else:
            known = _listed(list(self.predicates))
            fail(self.source, tree, f"predicate {name} is not declared; known predicates: {known}")
        if len(terms) != len(types):
            fail(self.source, tree, f"{name} takes {len(types)} arguments, here are {len(terms)}")
        for term, type_name in zip(terms, types, strict=True):
            self._check_term(term, type_name, variables, tree)
        return (name, *terms)

    def _check_term(
        self, term: str, wanted: str, variables: Mapping[str, str], tree: ParserRuleContext
    ) -> None:
        if term not in variables and term not in self.objects:
            kind = "a parameter of this action" if term[0] == "?" else "a declared object"
            fail(self.source, tree, f"{term} in {_text(tree)} is not {kind}")
        got = variables[term] if term in variables else self.objects[term]
        is_subtype = self._known.is_subtype
        # A variable of a wider type is right for some of its objects; an object is right or wrong.
        if not is_subtype(got, wanted) and not (term in variables and is_subtype(wanted, got)):
            fail(self.source, tree, f"{term} in {_text(tree)} must be a {wanted}, it is a {got}")


def _typed(names: ParserRuleContext, source: str) -> Iterable[tuple[str, str, ParserRuleContext]]:
    """(name, type, place) of a list such as `a b - t c`, where c is an object."""
    is_variables = hasattr(names, "VARIABLE")
    groups = names.singleTypeVarList() if is_variables else names.singleTypeNameList()
    for group in [*groups, names]:
        type_name = ROOT if group is names else group.r_type().getText()
        for name in group.VARIABLE() if is_variables else group.name():
            yield name.getText(), type_name, group


def _listed(names: list[str]) -> str:
    rest = [f"and {len(names) - _MAX_NAMES:,} more"] if len(names) > _MAX_NAMES else []
    return ", ".join(names[:_MAX_NAMES] + rest) or "none"


def _text(tree: ParserRuleContext) -> str:
    return atom_text(tuple(child.getText() for child in list(tree.getChildren())[1:-1]))
