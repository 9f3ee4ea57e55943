"""Trained skills for the steps of a plan (TP-SRL): who runs a step, on what, after what.

    step -> hand emptied if the plan has it empty -> arm reset -> the skill on its target's sensors

The plan may be made and checked by looking at the simulator (`planner.chain`); what is here reads
the robot's sensors, but for the skills that the oracle stands in for.
"""

from __future__ import annotations

from rearrange.planner.calls import Call
from rearrange.planner.chain_cfg import ChainCfg
from rearrange.planner.oracle_skills import OracleSkills
from rearrange.planner.skill_set import SkillSet
from rearrange.planner.skill_view import SkillView
from rearrange.sim.furniture import MARKERS
from rearrange.skills.body import Body
from rearrange.skills.deployment import Senses, reset_arm, run_policy
from rearrange.skills.recovery import step_aside
from rearrange.skills.retreat import let_go
from rearrange.skills.skill import Program
from rearrange.tasks.episode import EpisodeSpec
from rearrange.tasks.home import HOME_MARKERS
from rearrange.tasks.registry import make_task


class LearnedSkills:
    """The skills of a set on one body in one episode."""

    def __init__(
        self, body: Body, episode: EpisodeSpec, senses: Senses, skills: SkillSet, cfg: ChainCfg
    ) -> None:
        self._body, self._episode, self._senses = body, episode, senses
        self._skills, self._cfg = skills, cfg
        self._oracle = OracleSkills(body, episode)
        self._names = [target.name for target in episode.targets]
        self._num_calls = 0
        self.skipped = skills.skipped

    def limit(self, skill: str) -> int:
        """That of the settings, else the time that an episode of the skill's own task has."""
        if skill in self._cfg.limits:
            return self._cfg.limits[skill]
        if skill in self._skills.oracle:
            return self._oracle.limit(skill)
        return make_task(skill).rules.max_episode_steps

    def prepare(self, call: Call) -> Program:
        """Lets go of what the plan does not have in hand: a handle, a wrong object. Resets the arm.

        A skill that was cut off leaves such things; M3 too forces a release then (hab-spec 5.3).
        """
        if self._senses.is_holding and not call.is_carrying:
            yield from let_go(self._body)
        if call.skill not in self._skills.oracle:
            yield from reset_arm(self._body, self._senses)
        return None

    def program(self, call: Call, following: Call | None) -> Program:
        """The trained skill of a call, from a fresh memory, or the oracle's program for it."""
        self._body.phase = ""
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
        return run_policy(call.skill, policy, self._senses, view, seed)

    def recover(self, call: Call, failures: int) -> Program:
        """The oracle's recovery after an oracle skill, else that by the robot's own sensors."""
        if call.skill in self._skills.oracle:
            return self._oracle.recover(call, failures)
        return step_aside(self._body, self._senses, 1000 * self._episode.index + failures)

    def leaves_place(self, call: Call) -> bool:
        """After a learned skill the robot has stepped aside; the oracle takes it as it comes."""
        return call.skill not in self._skills.oracle

    def _view(self, call: Call) -> SkillView | None:
        if call.skill == "navigate" and call.entity in MARKERS:
            return self._way_to_handle(MARKERS[call.entity])
        if call.entity in MARKERS:
            if call.entity not in HOME_MARKERS:
                return None
            return SkillView(call.skill, marker=HOME_MARKERS.index(call.entity))
        target = self._names.index(call.target)
        return SkillView(call.skill, target, is_at_goal=call.is_at_goal)

    def _way_to_handle(self, joint: str) -> SkillView | None:
        """Navigate leads to what lies, or belongs, behind a handle, as in Habitat (hab-spec 5.1).

        It was trained on the places of objects and on no handles, and a stop 1.5 m before an object
        inside is nearer to the handle than a stop 1.5 m before the handle would be.
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
