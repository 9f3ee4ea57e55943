"""The validator accepts what works and says what does not, without help from the planner."""

from dataclasses import replace
from pathlib import Path

import pytest

from rearrange.planner.strips.pddl import GroundAction, parse_domain, parse_problem
from rearrange.planner.strips.validate import PlanError, validate

PDDL = Path(__file__).with_name("pddl")
NOTHING = frozenset()


def step(text):
    """An action by its name and objects only: the validator must take the rest from the domain."""
    name, *arguments = text.split()
    return GroundAction(name, tuple(arguments), NOTHING, NOTHING, NOTHING, NOTHING)


@pytest.fixture
def lights():
    domain = parse_domain((PDDL / "lights.pddl").read_text())
    return domain, parse_problem((PDDL / "lights-3.pddl").read_text(), domain)


PLAN = [
    "switch-on hall kitchen",
    "walk hall kitchen",
    "switch-on kitchen cellar",
    "walk kitchen cellar",
    "switch-off cellar kitchen",
]


def test_a_plan_written_by_hand_is_accepted(lights):
    validate(*lights, [step(text) for text in PLAN])


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (PLAN[:4], r"after 4 steps the goal \(dark kitchen\) does not hold"),
        (PLAN[1:], r"step 1, \(walk hall kitchen\): its precondition \(not \(dark kitchen\)\)"),
        (PLAN[:1] + PLAN[2:], r"step 2, .*: its precondition \(at kitchen\) does not hold"),
        (["switch-on hall attic"], r"step 1, .*\(not \(broken attic\)\) does not hold"),
        ([*PLAN[:2], "switch-off kitchen hall"], r"step 3, .*\(not \(= hall hall\)\)"),
        (["fly hall kitchen"], "step 1, .*no action fly"),
        (["walk hall"], "step 1, .*takes 2 arguments, got 1"),
        (["walk hall moon"], "step 1, .*no object moon"),
    ],
)
def test_a_wrong_plan_is_refused_with_step_and_reason(lights, plan, message):
    with pytest.raises(PlanError, match=message):
        validate(*lights, [step(text) for text in plan])


def test_types_of_arguments_are_checked():
    domain = parse_domain((PDDL / "zoo.pddl").read_text())
    problem = parse_problem((PDDL / "zoo-walk.pddl").read_text(), domain)
    with pytest.raises(PlanError, match=r"\?p must be a pet, shir is a tiger"):
        validate(domain, problem, [step("cuddle shir")])


def test_what_a_step_claims_about_itself_is_not_believed(lights):
    goals = frozenset({("at", "cellar"), ("dark", "kitchen")})
    liar = replace(step("walk hall kitchen"), add_effects=goals)
    with pytest.raises(PlanError, match="step 1"):
        validate(*lights, [liar])


def test_deletes_come_before_adds():
    """PDDL: a fact that an action both deletes and adds holds afterwards."""
    domain = parse_domain(
        """(define (domain d) (:predicates (p) (q))
        (:action act :parameters () :precondition (p) :effect (and (q) (p) (not (p)))))"""
    )
    text = "(define (problem x) (:domain d) (:init (p)) (:goal (and (p) (q))))"
    validate(domain, parse_problem(text, domain), [step("act")])
