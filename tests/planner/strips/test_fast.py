"""Large problems are solved in seconds, by plans that the validator accepts."""

import instances
import pytest

from rearrange.planner.strips.agenda import goal_layers
from rearrange.planner.strips.encoding import encode, facts_of
from rearrange.planner.strips.grounding import ground
from rearrange.planner.strips.pddl import parse_domain, parse_problem
from rearrange.planner.strips.search import NoPlanError, SearchLimitError, search
from rearrange.planner.strips.together import facts_together
from rearrange.planner.strips.validate import validate

LARGE = {
    "blocks of 20": instances.blocks(20, 1),
    "blocks of 30": instances.blocks(30, 2),
    "logistics": instances.logistics(3, 3, 10, 1),
    "large logistics": instances.logistics(5, 5, 30, 1),
    "gripper": instances.gripper(20),
    "ferry": instances.ferry(5, 20, 1),
    "hanoi": instances.hanoi(6),
}


def read(texts):
    domain = parse_domain(texts[0])
    return domain, parse_problem(texts[1], domain)


@pytest.mark.parametrize("name", LARGE)
def test_large_problems_are_solved_with_few_states(name):
    domain, problem = read(LARGE[name])
    plan = search(ground(domain, problem), "fast", max_nodes=1500)
    validate(domain, problem, plan)


def test_a_tower_is_built_from_its_foot():
    goals = "(on b0 b1) (on b2 b3) (on b1 b2)"
    text = instances.blocks(4, 1)[1].split("(:goal")[0] + f"(:goal (and {goals})))"
    task = encode(ground(*read((instances.blocks(4, 1)[0], text))))
    layers = [[task.text(goal) for goal in layer] for layer in goal_layers(task)]
    assert layers.index(["(on b1 b2)"]) < layers.index(["(on b0 b1)"])
    assert all("(on b2 b3)" not in layer for layer in layers[layers.index(["(on b1 b2)"]) :])


def test_facts_of_all_reachable_states_may_hold_together():
    task = encode(ground(*read(instances.blocks(4, 3))))
    rows, seen, stack = facts_together(task), {task.init}, [task.init]
    while stack:
        state = stack.pop()
        assert all(rows[fact] & state == state for fact in facts_of(state))
        for operator in task.operators:
            successor = operator.apply(state)
            if operator.is_applicable(state) and successor not in seen:
                seen.add(successor)
                stack.append(successor)
    number = {task.text(fact): fact for fact in range(len(rows))}
    assert not rows[number["(holding b0)"]] >> number["(handempty)"] & 1


def test_a_plan_knows_whether_it_is_shortest():
    task = ground(*read(instances.gripper(4)))
    plan = search(task, "optimal")
    assert plan.is_shortest and len(plan) == 11
    assert not search(task, "fast").is_shortest
    assert search(task, "auto") == search(task, "astar")


def test_limits_name_the_settings_that_lift_them():
    task = ground(*read(instances.blocks(20, 1)))
    with pytest.raises(SearchLimitError, match="within 10 states.*larger max_nodes"):
        search(task, "fast", max_nodes=10)
    with pytest.raises(SearchLimitError, match="within 0.001 s.*larger timeout_s"):
        search(task, "auto", timeout_s=0.001)


def test_fast_search_knows_when_there_is_no_plan():
    domain, problem = instances.blocks(3, 1)
    problem = problem.split("(:goal")[0] + "(:goal (and (on b0 b1) (on b1 b0))))"
    with pytest.raises(NoPlanError):
        search(ground(*read((domain, problem))), "fast")


def levels(number):
    """Two facts a level, for each of which both of the level below are needed: h_add doubles."""
    pairs = [(f"a{i}", f"b{i}") for i in range(number + 1)]
    actions = [
        f"(:action {fact} :parameters () :precondition (and ({a}) ({b})) :effect ({fact}))"
        for (a, b), above in zip(pairs, pairs[1:], strict=False)
        for fact in above
    ]
    facts = " ".join(f"({fact})" for pair in pairs for fact in pair)
    (first, second), (a, b) = pairs[0], pairs[-1]
    return (
        f"(define (domain d) (:predicates {facts}) {' '.join(actions)})",
        f"(define (problem p) (:domain d) (:init ({first}) ({second})) (:goal (and ({a}) ({b}))))",
    )


@pytest.mark.parametrize("algorithm", ["auto", "fast", "optimal"])
def test_costs_without_bounds_are_no_dead_end_and_take_no_memory(algorithm):
    number = 12 if algorithm == "optimal" else 60
    domain, problem = read(levels(number))
    plan = search(ground(domain, problem), algorithm)
    validate(domain, problem, plan)
    assert len(plan) == 2 * number
