"""Replays a plan step by step on sets of facts, straight from the domain's action schemas.

It shares no code with grounding, encoding and search, and uses only a step's name and arguments, so
that it finds their mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence

from rearrange.errors import UserError
from rearrange.planner.strips.pddl import Domain, GroundAction, Problem, atom_text


class PlanError(UserError):
    """An invalid plan, with the step, counted from 1, and the reason."""


def validate(domain: Domain, problem: Problem, plan: Sequence[GroundAction]) -> None:
    """Returns if the plan leads from the problem's start to its goals, else raises PlanError."""
    facts = set(problem.init)
    for number, step in enumerate(plan, start=1):
        text = f"step {number}, {atom_text((step.name, *step.arguments))}"
        schema = domain.actions.get(step.name)
        if schema is None:
            raise PlanError(f"{text}: the domain has no action {step.name}")
        if len(step.arguments) != len(schema.parameters):
            raise PlanError(
                f"{text}: {step.name} takes {len(schema.parameters)} arguments,"
                f" got {len(step.arguments)}"
            )
        value = {name: name for name in problem.objects}  # they stand for themselves
        for (variable, kind), argument in zip(schema.parameters, step.arguments, strict=True):
            if argument not in problem.objects:
                raise PlanError(f"{text}: there is no object {argument}")
            if not domain.is_subtype(problem.objects[argument], kind):
                got = problem.objects[argument]
                raise PlanError(f"{text}: {variable} must be a {kind}, {argument} is a {got}")
            value[variable] = argument
        for wanted, atoms in ((True, schema.preconditions_pos), (False, schema.preconditions_neg)):
            for atom in atoms:
                fact = (atom[0], *(value[term] for term in atom[1:]))
                holds = fact[1] == fact[2] if fact[0] == "=" else fact in facts
                if holds != wanted:
                    needed = atom_text(fact) if wanted else f"(not {atom_text(fact)})"
                    raise PlanError(f"{text}: its precondition {needed} does not hold")
        for atom in schema.del_effects:
            facts.discard((atom[0], *(value[term] for term in atom[1:])))
        for atom in schema.add_effects:
            facts.add((atom[0], *(value[term] for term in atom[1:])))
    for wanted, goals in ((True, problem.goal_pos), (False, problem.goal_neg)):
        for fact in goals:
            if (fact in facts) != wanted:
                goal = atom_text(fact) if wanted else f"(not {atom_text(fact)})"
                raise PlanError(f"after {len(plan)} steps the goal {goal} does not hold")
