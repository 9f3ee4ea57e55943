"""Trained skills for the steps of a plan (TP-SRL).

    step -> hand emptied if the plan needs it empty -> back out after Pick or Place
         -> arm reset -> the skill on its target's sensors

The plan may be made and checked from the simulator's state (`planner.agents.chain`); this module
uses only the robot's sensors, except for skills that the oracle carries out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rearrange.planner.agents.beliefs import Beliefs
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.agents.oracle_skills import OracleSkills
from rearrange.planner.agents.skill_set import SkillSet
from rearrange.planner.agents.skill_view import SkillView, shifted
from rearrange.planner.home.calls import Call
from rearrange.sim.home.furniture import MARKERS
from rearrange.skills.definition import SKILLS
from rearrange.skills.deployed.deployment import Observation, Senses, reset_arm, run_policy
from rearrange.skills.deployed.recovery import back_out, step_aside
from rearrange.skills.motion.retreat import let_go
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import Program
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.home import HOME_MARKERS
from rearrange.tasks.rules.rulebook import make_task

View = Callable[[Observation], Observation]


class LearnedSkills:
    """The skills of a set, for one robot in one episode."""

    def __init__(
        self,
        robot: Robot,
        episode: EpisodeSpec,
        senses: Senses,
        skills: SkillSet,
        cfg: ChainCfg,
        beliefs: Beliefs,
    ) -> None:
        self._robot, self._episode, self._senses = robot, episode, senses
        self._skills, self._cfg = skills, cfg
        self._oracle = OracleSkills(robot, episode)
        self._lead = robot.sim.motor_lead  # of the environment, for the oracle
        self._names = [target.name for target in episode.targets]
        self._num_calls = 0
        self._failures: Counter[str] = Counter()  # by the step's line
        self._is_hand_out = False  # among objects, where Pick or Place has ended
        self._beliefs = beliefs
        self.skipped = skills.skipped

    def limit(self, skill: str) -> int:
        """From the settings, else the skill, else its task's time limit."""
        if skill in self._cfg.limits:
            return self._cfg.limits[skill]
        if skill in self._skills.oracle:
            return self._oracle.limit(skill)
        definition = SKILLS[skill]
        return definition.trained_steps or make_task(definition.task).rules.max_episode_steps

    def prepare(self, call: Call) -> Program:
        """Releases what the plan does not expect in the hand, such as a handle; resets the arm.

        A skill that was cut off may leave these; M3 also forces a release then (hab-spec 5.3).
        """
        self._beliefs.begin(None)
        policy = self._skills.policies.get(call.skill)
        self._robot.sim.motor_lead = self._lead if policy is None else policy.motor_lead
        if self._senses.is_holding and not call.is_carrying:
            yield from let_go(self._robot)
        if call.skill not in self._skills.oracle:
            if self._is_hand_out:
                yield from back_out(self._robot)
            yield from reset_arm(self._robot, self._senses)
        self._is_hand_out = False
        return None

    def program(self, call: Call, following: Call | None) -> Program:
        """The trained skill of a call, from a fresh memory, or the oracle's program for it."""
        self._robot.phase = ""
        self._beliefs.begin(call)
        is_among_things = call.is_picking or call.is_placing
        self._is_hand_out = is_among_things and call.skill in self._skills.policies
        if call.skill in self._skills.oracle:
            is_ours = following is not None and following.skill in self._skills.oracle
            return self._oracle.program(call, following if is_ours else None)
        policy = self._skills.policies.get(call.skill)
        if policy is None:
            return _refusal("no such skill among those given")
        view = self._view(call)
        if view is None:
            return _refusal("no sensor tells where it is")
        self._num_calls += 1
        seed = 1000 * self._episode.index + self._num_calls
        # Its most likely actions have failed here, and would fail again.
        explore = self._failures[call.line] > 0
        gives_up = self._cfg.looks != "none"  # Habitat's skills run until their time limits
        return run_policy(call.skill, policy, self._senses, view, seed, explore, gives_up)

    def recover(self, call: Call, failures: int) -> Program:
        """The oracle's recovery after an oracle skill, else the one by the robot's own sensors."""
        self._beliefs.begin(None)
        if call.skill in self._skills.oracle:
            return self._oracle.recover(call, failures)
        self._failures[call.line] += 1
        self._is_hand_out = False  # it backs out
        return step_aside(self._robot, self._senses, 1000 * self._episode.index + failures)

    def leaves_place(self, call: Call) -> bool:
        """After a learned skill the robot has stepped aside; the oracle takes it as it comes."""
        return call.skill not in self._skills.oracle

    def _view(self, call: Call) -> View | None:
        if call.is_driving and call.entity in MARKERS:
            return self._way_to_handle(MARKERS[call.entity])
        if call.entity in MARKERS:
            if call.entity not in HOME_MARKERS:
                return None
            return SkillView(call.skill, marker=HOME_MARKERS.index(call.entity))
        name = call.destination if call.is_placing else call.target
        return self._of_target(call.skill, self._names.index(name), call.is_at_goal)

    def _of_target(self, skill: str, target: int, is_at_goal: bool) -> View:
        """A skill's view, with the start as it is believed now."""
        view = SkillView(skill, target, is_at_goal=is_at_goal)
        if is_at_goal or skill == "place":
            return view

        def believed(seen: Observation) -> Observation:
            own, offset = view(seen), self._beliefs.offset(target)
            if not offset.any():
                return own
            frames = self._senses.seen_frames
            assert frames is not None  # the movement was observed
            return shifted(own, offset, frames)

        return believed

    def _way_to_handle(self, joint: str) -> View | None:
        """Navigate drives to the object or goal behind a handle, as in Habitat (hab-spec 5.1).

        It was trained with positions of objects, not of handles, and a stop 1.5 m before an object
        inside is nearer to the handle than one 1.5 m before the handle. Only the position matters:
        the object may have been taken away.
        """
        for is_at_goal in (False, True):
            for place, target in enumerate(self._episode.targets):
                container = target.goal_container if is_at_goal else target.start_container
                if container == joint:
                    return SkillView("navigate", place, is_at_goal=is_at_goal)
        return None


def _refusal(why: str) -> Program:
    """A program that fails at once."""
    return why
    yield
