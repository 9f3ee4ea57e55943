"""Only what can happen is grounded: types, static facts, equality, and what is never reached."""

from pathlib import Path

import pytest

from rearrange.errors import UserError
from rearrange.planner.strips import grounding
from rearrange.planner.strips.grounding import ground
from rearrange.planner.strips.pddl import parse_domain, parse_problem

PDDL = Path(__file__).with_name("pddl")


def ground_texts(domain_text, problem_text):
    domain = parse_domain(domain_text)
    task = ground(domain, parse_problem(problem_text, domain))
    return {str(action) for action in task.actions}


def ground_files(domain, problem):
    return ground_texts((PDDL / domain).read_text(), (PDDL / problem).read_text())


def test_a_parameter_takes_the_objects_of_all_its_subtypes():
    assert ground_files("zoo.pddl", "zoo-walk.pddl") == {
        "(feed rex)", "(feed tom)", "(feed shir)", "(cuddle rex)", "(cuddle tom)", "(walk rex)",
    }  # fmt: skip


def test_static_facts_and_equality_prune():
    actions = ground_files("lights.pddl", "lights-3.pddl")
    assert "(switch-on hall kitchen)" in actions
    assert "(switch-on hall attic)" not in actions  # broken, and nothing repairs it
    assert "(switch-off kitchen hall)" not in actions  # (not (= ?a hall))
    assert "(switch-on hall cellar)" not in actions  # not next to each other
    assert "(switch-off kitchen cellar)" in actions


def test_trucks_stay_in_their_cities():
    actions = ground_files("logistics.pddl", "logistics-2.pddl")
    assert "(drive t1 office1 airport1 c1)" in actions
    assert not any(a.startswith("(drive t1") and ("office2" in a or "c2" in a) for a in actions)
    assert not any(a.startswith("(load k1 plane office") for a in actions)


def test_equality_with_a_constant_and_a_repeated_variable():
    domain = """(define (domain d) (:requirements :strips :equality) (:constants k)
      (:predicates (p ?a ?b) (q ?a))
      (:action act :parameters (?a ?b) :precondition (and (p ?a ?a) (= ?b k)) :effect (q ?b)))"""
    problem = """(define (problem x) (:domain d) (:objects a b) (:init (p a a) (p a b) (p b k))
      (:goal (q k)))"""
    assert ground_texts(domain, problem) == {"(act a k)"}


def test_many_objects_ground_quickly_through_their_joins():
    """A chain of 150 places: 150^3 bindings if tried blindly, 149 that exist."""
    domain = """(define (domain d) (:predicates (next ?a ?b) (two ?a ?c))
      (:action skip :parameters (?a ?b ?c) :precondition (and (next ?a ?b) (next ?b ?c))
        :effect (two ?a ?c)))"""
    places = [f"p{i}" for i in range(150)]
    chain = " ".join(f"(next {a} {b})" for a, b in zip(places, places[1:], strict=False))
    problem = f"""(define (problem x) (:domain d) (:objects {" ".join(places)}) (:init {chain})
      (:goal (two p0 p2)))"""
    assert len(ground_texts(domain, problem)) == 148


@pytest.mark.parametrize("limit", ["MAX_ACTIONS", "MAX_JOIN_STEPS"])
def test_explosion_is_one_line(monkeypatch, limit):
    monkeypatch.setattr(grounding, limit, 1000)
    domain = """(define (domain d) (:predicates (p ?a ?b ?c))
      (:action act :parameters (?a ?b ?c) :effect (p ?a ?b ?c)))"""
    objects = " ".join(f"o{i}" for i in range(20))
    problem = f"(define (problem x) (:domain d) (:objects {objects}) (:init) (:goal (p o1 o2 o3)))"
    with pytest.raises(UserError, match="fewer objects") as error:
        ground_texts(domain, problem)
    assert "\n" not in str(error.value)
