"""The oracle's programs for the steps of a plan. They use the simulator's state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rearrange.planner.home.calls import Call, place_of
from rearrange.sim.home.furniture import MARKERS
from rearrange.sim.home.objects import ObjectKind
from rearrange.skills.definition import SKILLS
from rearrange.skills.motion import retreat
from rearrange.skills.motion.body import Body
from rearrange.skills.motion.reach import ReachPlan
from rearrange.skills.oracle import doors as oracle_doors
from rearrange.skills.oracle import objects as oracle_objects
from rearrange.skills.oracle import place as oracle_place
from rearrange.skills.skill import Program
from rearrange.system.registry import resolved
from rearrange.tasks.rules.episode import EpisodeSpec, Target


class OracleSkills:
    """Oracle programs on one body in one episode."""

    skipped: frozenset[str] = frozenset()

    def __init__(self, body: Body, episode: EpisodeSpec) -> None:
        self._body, self._episode = body, episode

    def limit(self, skill: str) -> int:
        """Control steps that a skill may take."""
        return SKILLS[skill].oracle_steps

    def prepare(self, call: Call) -> Program:
        """Nothing: every program starts from any posture."""
        return None
        yield

    def program(self, call: Call, following: Call | None) -> Program:
        """The program of a call. Navigation goes where the skill after it is best started."""
        definition = SKILLS[call.skill]
        if definition.step is None:
            return definition.start_program(self._body, own_episode(self._episode, call))
        return resolved(definition.step)(self._body, self._episode, call, following)

    def recover(self, call: Call, failures: int) -> Program:
        """Away from what is touched, to an open place near by."""
        return retreat.recover(self._body, failures)

    def leaves_place(self, call: Call) -> bool:
        """Its programs start from anywhere."""
        return False


# --- steps of plans ------------------------------------------------------------------------------


def own_episode(episode: EpisodeSpec, call: Call) -> EpisodeSpec:
    """A step as an episode of its skill's own task that begins where the robot is now."""
    is_handle = call.entity in MARKERS
    names = [target.name for target in episode.targets]
    return replace(
        episode,
        task=SKILLS[call.skill].task,
        marker=call.entity if is_handle else None,
        target_index=0 if is_handle else names.index(call.target),
        start_holding=call.is_carrying,
    )


def navigate(body: Body, episode: EpisodeSpec, call: Call, following: Call | None) -> Program:
    reach = SKILLS[following.skill].reach if following is not None else None
    where = place_of(body.sim, episode, call.entity)
    plan: ReachPlan | None = None if reach is None else resolved(reach)(body, episode, following)
    return oracle_objects.navigate(body, where, plan)


def pick(body: Body, episode: EpisodeSpec, call: Call, following: Call | None) -> Program:
    target = _target(episode, call.target)
    return oracle_objects.pick(body, target.object, _pitches(body, target))


def reach_pick(body: Body, episode: EpisodeSpec, call: Call) -> ReachPlan | None:
    target = _target(episode, call.target)
    return oracle_objects.plan_pick(body, target.object, _pitches(body, target))


def place(body: Body, episode: EpisodeSpec, call: Call, following: Call | None) -> Program:
    target = _target(episode, call.target)
    return oracle_place.place(body, target.object, _goal(episode, call))


def reach_place(body: Body, episode: EpisodeSpec, call: Call) -> ReachPlan | None:
    target = _target(episode, call.target)
    return oracle_place.plan_place(body, target.object, _goal(episode, call))


def open_container(body: Body, episode: EpisodeSpec, call: Call, following: Call | None) -> Program:
    _check_empty(body, call)
    return oracle_doors.open_container(body, call.entity)


def reach_handle(body: Body, episode: EpisodeSpec, call: Call) -> ReachPlan | None:
    return oracle_doors.plan_handle(body, call.entity)


def close_container(
    body: Body, episode: EpisodeSpec, call: Call, following: Call | None
) -> Program:  # fmt: skip
    _check_empty(body, call)
    return oracle_doors.close_container(body, call.entity)


def _check_empty(body: Body, call: Call) -> None:
    """Raises RuntimeError if a plan has the hand empty and it is not."""
    sim = body.sim
    if sim.held_object is not None:
        held = sim.object_kind(sim.held_object).name
        raise RuntimeError(f"{call.skill} planned with {held} in hand")


def _target(episode: EpisodeSpec, name: str) -> Target:
    return next(target for target in episode.targets if target.name == name)


def _goal(episode: EpisodeSpec, call: Call) -> np.ndarray:
    """Where a place ends, [3] m, world."""
    return np.array(_target(episode, call.destination).goal)


def _pitches(body: Body, target: Target) -> tuple[float, ...]:
    """How to approach a target so that it can be set down where it has to go."""
    kind = body.sim.object_kind(target.object)
    return pick_pitches(kind, target, body.sim.object_pos_w(target.object))


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
