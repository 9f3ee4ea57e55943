"""The task planner at work (TP): plan, run a skill, look, go on or plan again.

    observe -> plan -> skill -> observe: does the rest of the plan still lead to the goal?
                         |            yes: next skill      no: plan again
                         +-- failed: plan again, a bounded number of times

Every skill has a time limit and ends with the arm at rest. Ends with stop once the goals hold.
"""

from __future__ import annotations

import numpy as np

from rearrange.planner.facts import entities, observe
from rearrange.planner.pddl import GroundAction, parse_problem
from rearrange.planner.plan import solve_home
from rearrange.planner.problems import home_domain, skill_call
from rearrange.planner.search import NoPlanError
from rearrange.planner.validate import PlanError, validate
from rearrange.sim import furniture as fur
from rearrange.sim.objects import ObjectKind
from rearrange.skills import oracle_doors, oracle_objects, oracle_place, retreat
from rearrange.skills.body import Body
from rearrange.skills.reach import ReachPlan
from rearrange.skills.skill import Program
from rearrange.tasks.episode import EpisodeSpec, Target
from rearrange.tasks.predicates import object_at

MAX_FAILURES = 8
SKILL_LIMITS = {
    "navigate": 700,
    "pick": 900,
    "place": 800,
    "open": 700,
    "close": 700,
}  # control steps
RECOVERY_LIMIT = 300  # control steps
SETTLE_STEPS = 10  # before the last look: what was let go comes to rest


class ChainProgram:
    """One episode's plan in execution, with what people and metrics want to know of it."""

    def __init__(self, body: Body, episode: EpisodeSpec) -> None:
        self._body, self._episode = body, episode
        self._entities = entities(episode)
        self._targets = {target.name: target for target in episode.targets}
        self._robot_at: str | None = None
        self._plan: list[GroundAction] = []
        self._done: list[str] = []  # lines of steps carried out
        self.attempts: list[tuple[str, bool]] = []
        self.failures: list[str] = []  # what went wrong so far, for people
        self.status = "planning"

    @property
    def plan_lines(self) -> list[str]:
        """Steps done, the running one marked, steps to come."""
        ahead = [self._line(step) for step in self._plan]
        return [f"+ {line}" for line in self._done] + [
            f"{'>' if i == 0 else ' '} {line}" for i, line in enumerate(ahead)
        ]

    def run(self) -> Program:
        """The whole episode; returns None once the goals hold, else why it gave up."""
        failures = 0
        while True:
            problem = observe(self._body.sim, self._episode, self._robot_at)
            try:
                self._plan = solve_home(problem)
            except NoPlanError:
                return "no plan"
            if not self._plan:
                yield from self._body.settle(SETTLE_STEPS)
                if all(object_at(self._body.sim, target) for target in self._episode.targets):
                    self.status = "done"
                    return None
                continue
            failure = yield from self._carry_out()
            if failure is not None:
                failures += 1
                if failures >= MAX_FAILURES:
                    return failure
                yield from _limited(retreat.recover(self._body, failures), RECOVERY_LIMIT)

    def _carry_out(self) -> Program:
        """Runs the plan until it is through, a skill fails, or a fact that it needs is lost."""
        while self._plan:
            step = self._plan[0]
            skill, arguments = skill_call(step)
            names = [self._entities[argument] for argument in arguments]
            self.status = self._line(step)
            name, program = self._program(skill, names)
            failure = yield from _limited(program, SKILL_LIMITS[name.split("_")[0]])
            self.attempts.append((name, failure is None))
            if failure is not None:
                self.failures.append(f"{name}: {failure}")
                return self.failures[-1]
            self._done.append(self._line(step))
            if skill == "navigate":
                self._robot_at = names[0]
            del self._plan[0]
            if not self._still_holds():
                return None
        return None

    def _still_holds(self) -> bool:
        """Whether the rest of the plan leads from what is observed now to the goals."""
        problem = parse_problem(
            observe(self._body.sim, self._episode, self._robot_at), home_domain()
        )
        try:
            validate(home_domain(), problem, self._plan)
        except PlanError:
            return False
        return True

    def _program(self, skill: str, names: list[str]) -> tuple[str, Program]:
        """Name of the skill as trained, and its oracle program."""
        body, sim = self._body, self._body.sim
        if skill == "navigate":
            return skill, oracle_objects.navigate(
                body, self._place_of(names[0]), self._next_reach()
            )
        if skill in ("pick", "place"):
            target = self._targets[names[0]]
            if skill == "pick":
                return skill, oracle_objects.pick(body, target.object, self._pitches(target))
            return skill, oracle_place.place(body, target.object, np.array(target.goal))
        is_drawer = fur.MARKERS[names[0]] in fur.DRAWERS
        name = f"{skill.split('_')[0]}_{'drawer' if is_drawer else 'fridge'}"
        if sim.held_object is not None:
            sim_name = sim.object_kind(sim.held_object).name
            raise RuntimeError(f"{name} planned with {sim_name} in hand")
        run = (
            oracle_doors.open_container
            if skill.startswith("open")
            else oracle_doors.close_container
        )
        return name, run(body, names[0])

    def _next_reach(self) -> ReachPlan | None:
        """How the skill after this navigation will reach its thing, as far as is known here."""
        if len(self._plan) < 2:
            return None
        skill, arguments = skill_call(self._plan[1])
        name = self._entities[arguments[0]]
        if skill == "pick":
            target = self._targets[name]
            return oracle_objects.plan_pick(self._body, target.object, self._pitches(target))
        if skill == "place":
            target = self._targets[name]
            return oracle_place.plan_place(self._body, target.object, np.array(target.goal))
        if skill.startswith("open"):
            return oracle_doors.plan_handle(self._body, name)
        return None

    def _pitches(self, target: Target) -> tuple[float, ...]:
        """How to approach a target so that it can be set down where it has to go."""
        kind = self._body.sim.object_kind(target.object)
        return pick_pitches(kind, target, self._body.sim.object_pos_w(target.object))

    def _place_of(self, entity: str) -> np.ndarray:
        sim = self._body.sim
        if entity in fur.MARKERS:
            return sim.marker_pos_w(entity)
        if entity in self._targets:
            return sim.object_pos_w(self._targets[entity].object)
        return np.array(self._targets[entity.removeprefix("TARGET_")].goal)

    def _line(self, step: GroundAction) -> str:
        skill, arguments = skill_call(step)
        return f"{skill}({', '.join(self._entities[argument] for argument in arguments)})"


def pick_pitches(kind: ObjectKind, target: Target, now: np.ndarray) -> tuple[float, ...]:
    """Approaches, best first: level where a shelf or a high goal leaves no room above."""
    in_fridge = (
        target.start_container == "fridge_top_door" and np.linalg.norm(now - target.start) < 0.3
    )
    if target.goal_container == "fridge_top_door" and kind.half_height > 0.045:
        return oracle_objects.PITCHES_SIDE
    if in_fridge or target.goal_container == "fridge_top_door":
        return oracle_objects.PITCHES_LEVEL
    if target.goal[2] + kind.half_height > 0.97:
        return oracle_objects.PITCHES_HIGH
    return oracle_objects.PITCHES


def _limited(program: Program, limit: int) -> Program:
    for _ in range(limit):
        try:
            action = next(program)
        except StopIteration as end:
            return end.value
        yield action
    program.close()
    return "out of time"
