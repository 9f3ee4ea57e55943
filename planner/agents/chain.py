"""Plan execution (TP): plan, run a skill, check the facts, continue or plan again.

    observe -> plan -> skill -> observe: does the rest of the plan still lead to the goal?
                         |            yes: next skill      no: plan again
                         +-- failed: plan again, a bounded number of times

Every skill has a time limit. The chain calls stop once the goals hold. With `looks=none` the first
plan is carried out to its end without checks, as in Habitat-lab and the VER paper.

`planner.agents.fact_sources` provides the facts. The first plan uses those that HAB gives with the
task. For the report alone, the simulator's state shows which skills ended without their effect.
"""

from __future__ import annotations

from typing import Protocol

from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.agents.fact_sources import FactSource, PrivilegedFacts, has_worked, problem
from rearrange.planner.home.calls import Call, call_of
from rearrange.planner.home.domain import entity_table, problem_text, task_domain, task_skills
from rearrange.planner.home.plan import solve_home
from rearrange.planner.strips.pddl import GroundAction
from rearrange.planner.strips.search import NoPlanError
from rearrange.planner.strips.validate import PlanError, validate
from rearrange.skills.motion.retreat import let_go
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import Program
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.task import Task

RECOVERY_LIMIT = 300  # control steps
SETTLE_STEPS = 10  # before the last check: released objects come to rest
OUT_OF_TIME = "out of time"
NOT_DONE = "ended without success"


class SkillProvider(Protocol):
    """Carries out the steps of a plan in one episode."""

    skipped: frozenset[str]  # skills whose steps count as done without being run

    def limit(self, skill: str) -> int:
        """Time limit of a skill, control steps."""
        ...

    def prepare(self, call: Call) -> Program:
        """Prepares hand and arm before a skill's own time begins."""
        ...

    def program(self, call: Call, following: Call | None) -> Program:
        """The program of a step, given the step after it."""
        ...

    def recover(self, call: Call, failures: int) -> Program:
        """The recovery after a failed step, the `failures`-th of the episode."""
        ...

    def leaves_place(self, call: Call) -> bool:
        """Whether `recover` moves the robot away, so that it has to come back."""
        ...


class ChainProgram:
    """Executes the plan of one episode, with its status for people and metrics.

    Args:
        source: of facts after the first plan; None: the simulator's state.
        task: its rules, with facts that the simulator's state does not show.
    """

    def __init__(
        self,
        robot: Robot,
        episode: EpisodeSpec,
        skills: SkillProvider,
        cfg: ChainCfg | None = None,
        source: FactSource | None = None,
        task: Task | None = None,
    ) -> None:
        self._robot, self._episode, self._skills = robot, episode, skills
        self._cfg = cfg or ChainCfg()
        self._truth = PrivilegedFacts(robot.sim, episode, task)
        self._source = source or self._truth
        self._entities = entity_table(episode)
        self._robot_at: str | None = None
        self._plan: list[GroundAction] = []
        self._past: list[str] = []  # lines of finished or abandoned steps, with their marks
        self._num_failures = 0
        self.attempts: list[tuple[str, bool]] = []
        self.failures: list[str] = []  # failures so far: "pick(any_targets|2): no reach"
        self.status = "planning"

    @property
    def plan_lines(self) -> list[str]:
        """Steps: done with +, abandoned with x, running with >, pending."""
        ahead = [self._call(place).line for place in range(len(self._plan))]
        return self._past + [f"{'>' if i == 0 else ' '} {line}" for i, line in enumerate(ahead)]

    def run(self) -> Program:
        """The whole episode; returns None if it believes to be done, else the reason of failure."""
        if self._cfg.looks == "none":
            return (yield from self._run_blindly())
        return (yield from self._run_with_looks())

    def _run_with_looks(self) -> Program:
        """Continues until the goals hold or too many skills have failed."""
        while True:
            try:
                self._plan = solve_home(self._problem_text(), self._episode.task)
            except NoPlanError:
                if self._num_failures + 1 < self._cfg.most_failures and self._is_believed_held:
                    yield from self._put_aside()
                    continue
                return "no plan"
            if not self._plan:
                yield from self._robot.settle(SETTLE_STEPS)
                if self._still_holds():  # with nothing left to do
                    self.status = "done"
                    return None
                continue
            while self._plan:
                call = self._call(0)
                failure = yield from self._run_step()
                if failure is not None:
                    if self._num_failures >= self._cfg.most_failures:
                        return failure
                    recovery = self._skills.recover(call, self._num_failures)
                    yield from limited(recovery, RECOVERY_LIMIT)
                    if self._skills.leaves_place(call):
                        self._robot_at = None
                    break
                if not self._still_holds():
                    break

    def _put_aside(self) -> Program:
        """Lets go of what is held, where that stands in the way of any plan: its only goal may lie
        in a fridge that has fallen shut, which opens for an empty hand alone."""
        self.status = "let go"
        self._num_failures += 1
        self.failures.append("no plan with what is held")
        yield from let_go(self._robot)
        yield from self._robot.settle(SETTLE_STEPS)

    @property
    def _is_believed_held(self) -> bool:
        return self._source.facts().held is not None

    def _run_blindly(self) -> Program:
        """The first plan step by step; failed steps are skipped.

        Returns the first failure, None if none was noticed.
        """
        try:
            self._plan = solve_home(self._problem_text(), self._episode.task)
        except NoPlanError:
            return "no plan"
        while self._plan:
            failure = yield from self._run_step()
            if failure is not None:
                if self._num_failures >= self._cfg.most_failures:
                    return failure
                self._past.append(f"x {self._call(0).line}")
                del self._plan[0]
        yield from self._robot.settle(SETTLE_STEPS)
        self.status = "done"
        return self.failures[0] if self.failures else None

    def _run_step(self) -> Program:
        """Carries out the next step and removes it from the plan.

        Returns None, or the failure, with the step still in the plan.
        """
        step, call = self._plan[0], self._call(0)
        self.status = call.line
        if call.skill not in self._skills.skipped:
            following = self._call(1) if len(self._plan) > 1 else None
            yield from self._skills.prepare(call)
            program = self._skills.program(call, following)
            failure = yield from limited(program, self._skills.limit(call.skill))
            self._source.end(step, call, failure)
            noticed = failure
            if failure is None:
                has_done = has_worked(self._truth, self._episode, step, call)
                failure = None if has_done else NOT_DONE
                if self._source is not self._truth:  # its beliefs may differ
                    has_done = has_worked(self._source, self._episode, step, call)
                if self._cfg.looks != "none" and not has_done:
                    noticed = NOT_DONE
            self.attempts.append((call.skill, failure is None))
            if failure is not None or noticed is not None:
                self.failures.append(f"{call.skill}({call.entity}): {failure or noticed}")
            if noticed is not None:
                self._num_failures += 1
                return self.failures[-1]
        if call.is_driving:
            self._robot_at = call.entity
        self._past.append(f"+ {call.line}")
        del self._plan[0]
        return None

    # --- looking ----------------------------------------------------------------------------------

    def _still_holds(self) -> bool:
        """Whether the rest of the plan, if any, leads from the known facts to the goals."""
        left = problem(self._source, self._episode, self._robot_at)
        try:
            validate(task_domain(self._episode.task), left, self._plan)
        except PlanError:
            return False
        return True

    def _problem_text(self) -> str:
        return problem_text(self._episode, self._source.facts(), self._robot_at)

    def _call(self, place: int) -> Call:
        """Of the plan's step at a place from now on."""
        step, *rest = self._plan[place:]
        return call_of(step, self._entities, rest, task_skills(self._episode.task))


def limited(program: Program, limit: int) -> Program:
    """A program, ended after `limit` control steps."""
    for num_left in range(limit, -1, -1):
        try:
            action = next(program)  # with none left too: it may have ended with the last of them
        except StopIteration as end:
            return end.value
        if num_left:
            yield action
    program.close()
    return OUT_OF_TIME
