"""The oracle's programs for the steps of a plan. They use the simulator's state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rearrange.planner.home.calls import Call, place_of
from rearrange.sim.home.furniture import MARKERS
from rearrange.sim.home.objects import ObjectKind
from rearrange.skills.definition import SKILLS
from rearrange.skills.motion import retreat
from rearrange.skills.motion.reach import ReachPlan
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle import doors as oracle_doors
from rearrange.skills.oracle import objects as oracle_objects
from rearrange.skills.oracle import place as oracle_place
from rearrange.skills.skill import Program
from rearrange.system.registry import resolved
from rearrange.tasks.rules.episode import EpisodeSpec, Target


class OracleSkills:
    """Oracle programs for one robot in one episode."""

    skipped: frozenset[str] = frozenset()

    def __init__(self, robot: Robot, episode: EpisodeSpec) -> None:
        self._robot, self._episode = robot, episode

    def limit(self, skill: str) -> int:
        """Time limit of a skill, control steps."""
        return SKILLS[skill].oracle_steps

    def prepare(self, call: Call) -> Program:
        """Releases what the plan does not expect in the hand; programs start from any posture."""
        if self._robot.sim.is_holding and not call.is_carrying:
            yield from retreat.let_go(self._robot)
        return None

    def program(self, call: Call, following: Call | None) -> Program:
        """The program of a call. Navigation ends where the next skill starts best."""
        definition = SKILLS[call.skill]
        if definition.step is None:
            return definition.start_program(self._robot, own_episode(self._episode, call))
        return resolved(definition.step)(self._robot, self._episode, call, following)

    def recover(self, call: Call, failures: int) -> Program:
        """Away from what is touched, to an open place nearby."""
        return retreat.recover(self._robot, failures)

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
        target_index=names.index(call.target) if call.target in names else 0,
        start_holding=call.is_carrying,
    )


def navigate(robot: Robot, episode: EpisodeSpec, call: Call, following: Call | None) -> Program:
    reach = SKILLS[following.skill].reach if following is not None else None
    where = place_of(robot.sim, episode, call.entity)
    plan: ReachPlan | None = None if reach is None else resolved(reach)(robot, episode, following)
    return oracle_objects.navigate(robot, where, plan)


def pick(robot: Robot, episode: EpisodeSpec, call: Call, following: Call | None) -> Program:
    target = _target(episode, call.target)
    return oracle_objects.pick(robot, target.object, _pitches(robot, target))


def reach_pick(robot: Robot, episode: EpisodeSpec, call: Call) -> ReachPlan | None:
    target = _target(episode, call.target)
    return oracle_objects.plan_pick(robot, target.object, _pitches(robot, target))


def place(robot: Robot, episode: EpisodeSpec, call: Call, following: Call | None) -> Program:
    target = _target(episode, call.target)
    return oracle_place.place(robot, target.object, _goal(episode, call))


def reach_place(robot: Robot, episode: EpisodeSpec, call: Call) -> ReachPlan | None:
    target = _target(episode, call.target)
    return oracle_place.plan_place(robot, target.object, _goal(episode, call))


def open_container(
    robot: Robot, episode: EpisodeSpec, call: Call, following: Call | None
) -> Program:
    _check_empty(robot, call)
    return oracle_doors.open_container(robot, call.entity)


def reach_handle(robot: Robot, episode: EpisodeSpec, call: Call) -> ReachPlan | None:
    return oracle_doors.plan_handle(robot, call.entity)


def close_container(
    robot: Robot, episode: EpisodeSpec, call: Call, following: Call | None
) -> Program:  # fmt: skip
    _check_empty(robot, call)
    return oracle_doors.close_container(robot, call.entity)


def _check_empty(robot: Robot, call: Call) -> None:
    """Raises RuntimeError if the plan expects an empty hand and it is not."""
    sim = robot.sim
    if sim.held_object is not None:
        held = sim.object_kind(sim.held_object).name
        raise RuntimeError(f"{call.skill} planned with {held} in hand")


def _target(episode: EpisodeSpec, name: str) -> Target:
    return next(target for target in episode.targets if target.name == name)


def _goal(episode: EpisodeSpec, call: Call) -> np.ndarray:
    """Goal of a place, [3] m, world."""
    return np.array(_target(episode, call.destination).goal)


def _pitches(robot: Robot, target: Target) -> tuple[float, ...]:
    """Approaches to a target from which it can be set down at its goal."""
    kind = robot.sim.object_kind(target.object)
    return pick_pitches(kind, target, robot.sim.object_pos_w(target.object))


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
