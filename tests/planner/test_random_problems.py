"""Random small STRIPS problems, from text to plan, against a plain breadth-first search.

PLANNER_CASES=5000 runs so many instead of a few seconds' worth.
"""

import os
from collections import deque
from itertools import product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rearrange.errors import UserError
from rearrange.planner.home.plan import solve
from rearrange.planner.strips.grounding import ground
from rearrange.planner.strips.pddl import parse_domain, parse_problem
from rearrange.planner.strips.search import NoPlanError, search
from rearrange.planner.strips.validate import validate

CASES = int(os.environ.get("PLANNER_CASES", "0"))
OBJECTS = ("a", "b", "c")
PREDICATES = {"p": 1, "q": 1, "r": 2, "s": 0}
DOMAIN = "(define (domain d) (:predicates (p ?x) (q ?x) (r ?x ?y) (s)) {actions})"
PROBLEM = "(define (problem x) (:domain d) (:objects a b c) (:init {init}) (:goal (and {goal})))"


def cases(some):
    return settings(
        max_examples=CASES or some,
        deadline=None,
        derandomize=not CASES,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def literals(draw, terms, most, least=0):
    """(atom, whether it is positive), no atom twice."""
    chosen = {}
    for _ in range(draw(st.integers(least, most))):
        name = draw(st.sampled_from(sorted(PREDICATES)))
        arguments = [draw(st.sampled_from(terms)) for _ in range(PREDICATES[name])]
        chosen[(name, *arguments)] = draw(st.booleans())
    return sorted(chosen.items())


@st.composite
def problems(draw):
    """(actions, start, goals): an action is its number of variables, what it needs, its effects."""
    actions = []
    for _ in range(draw(st.integers(1, 4))):
        variables = [f"?v{i}" for i in range(draw(st.integers(0, 2)))]
        terms = variables or list(OBJECTS)
        needs, effects = draw(literals(terms, 3)), draw(literals(terms, 3, 1))
        actions.append((variables, needs, effects))
    start = [atom for atom, is_true in draw(literals(OBJECTS, 6)) if is_true]
    return actions, start, draw(literals(OBJECTS, 3, 1))


def text_of(formulas):
    return " ".join(
        f"({' '.join(atom)})" if is_true else f"(not ({' '.join(atom)}))"
        for atom, is_true in formulas
    )


def texts(problem):
    actions, start, goal = problem
    written = [
        f"(:action a{i} :parameters ({' '.join(variables)}) :precondition (and {text_of(needs)})"
        f" :effect (and {text_of(effects)}))"
        for i, (variables, needs, effects) in enumerate(actions)
    ]
    init = text_of([(atom, True) for atom in start])
    # A constant in an action must be declared by the domain.
    domain = DOMAIN.format(actions=" ".join(written))
    domain = domain.replace("(:predicates", f"(:constants {' '.join(OBJECTS)}) (:predicates", 1)
    return domain, PROBLEM.format(init=init, goal=text_of(goal))


def shortest(problem):
    """Length of a shortest plan by breadth-first search, None if there is no plan."""
    actions, start, goal = problem
    steps = []
    for variables, needs, effects in actions:
        for objects in product(OBJECTS, repeat=len(variables)):
            value = dict(zip(variables, objects, strict=True))
            steps.append([
                [(tuple(value.get(term, term) for term in atom), v) for atom, v in formulas]
                for formulas in (needs, effects)
            ])  # fmt: skip
    queue, depths = deque([frozenset(start)]), {frozenset(start): 0}
    while queue:
        state = queue.popleft()
        if all((atom in state) == v for atom, v in goal):
            return depths[state]
        for needs, effects in steps:
            if all((atom in state) == v for atom, v in needs):
                # Deletes come first: one action may do both to one fact, by two variables.
                after = state - {atom for atom, v in effects if not v}
                after |= {atom for atom, v in effects if v}
                if after not in depths:
                    depths[after] = depths[state] + 1
                    queue.append(after)
    return None


@cases(60)
@given(problems())
def test_a_plan_is_found_if_there_is_one_and_optimal_ones_are_shortest(problem):
    domain = parse_domain(texts(problem)[0])
    parsed = parse_problem(texts(problem)[1], domain)
    best = shortest(problem)
    for algorithm in ("auto", "fast", "optimal", "bfs"):
        try:
            plan = search(ground(domain, parsed), algorithm)
        except NoPlanError:
            assert best is None, algorithm
            continue
        assert best is not None, algorithm
        validate(domain, parsed, plan)
        assert plan.lower_bound <= best <= len(plan), algorithm
        if algorithm in ("optimal", "bfs"):
            assert len(plan) == best and plan.is_shortest
        assert not plan.is_shortest or len(plan) == best


@cases(60)
@given(problems(), st.data())
def test_spoiled_text_gives_a_plan_or_one_line(problem, data):
    pair = list(texts(problem))
    for _ in range(data.draw(st.integers(1, 3))):
        which = data.draw(st.integers(0, 1))
        text = pair[which]
        start, end = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
        pair[which] = text[:start] + data.draw(st.sampled_from(
            ["", "(", ")", "(:goal)", "?v0", "not", "(not ", "-", "\0", "and", text[start:end] * 2]
        )) + text[data.draw(st.sampled_from([start, end])):]  # fmt: skip
    try:
        solve(*pair, max_nodes=300)
    except UserError as error:
        assert "\n" not in str(error) and 0 < len(str(error)) < 500
