"""The oracle's programs for the steps of a plan. They go by the simulator's state."""

from __future__ import annotations

import numpy as np

from rearrange.planner.home.calls import Call, place_of
from rearrange.sim.home.objects import ObjectKind
from rearrange.skills.motion import retreat
from rearrange.skills.motion.body import Body
from rearrange.skills.motion.reach import ReachPlan
from rearrange.skills.oracle import doors as oracle_doors
from rearrange.skills.oracle import objects as oracle_objects
from rearrange.skills.oracle import place as oracle_place
from rearrange.skills.skill import Program
from rearrange.tasks.rules.episode import EpisodeSpec, Target

LIMITS = {
    "navigate": 700,
    "pick": 900,
    "place": 800,
    "open_drawer": 700,
    "open_fridge": 700,
    "close_drawer": 700,
    "close_fridge": 700,
}  # control steps


class OracleSkills:
    """Oracle programs on one body in one episode."""

    skipped: frozenset[str] = frozenset()

    def __init__(self, body: Body, episode: EpisodeSpec) -> None:
        self._body, self._episode = body, episode
        self._targets = {target.name: target for target in episode.targets}

    def limit(self, skill: str) -> int:
        """Control steps that a skill may take."""
        return LIMITS[skill]

    def prepare(self, call: Call) -> Program:
        """Nothing: every program starts from any posture."""
        return None
        yield

    def program(self, call: Call, following: Call | None) -> Program:
        """The program of a call. Navigation goes where the skill after it is best started."""
        body, sim = self._body, self._body.sim
        if call.skill == "navigate":
            place = place_of(sim, self._episode, call.entity)
            return oracle_objects.navigate(body, place, self._reach(following))
        if call.skill in ("pick", "place"):
            target = self._targets[call.target]
            if call.skill == "pick":
                return oracle_objects.pick(body, target.object, self._pitches(target))
            return oracle_place.place(body, target.object, self._goal(call))
        if sim.held_object is not None:
            held = sim.object_kind(sim.held_object).name
            raise RuntimeError(f"{call.skill} planned with {held} in hand")
        if call.skill.startswith("open"):
            return oracle_doors.open_container(body, call.entity)
        return oracle_doors.close_container(body, call.entity)

    def recover(self, call: Call, failures: int) -> Program:
        """Away from what is touched, to an open place near by."""
        return retreat.recover(self._body, failures)

    def leaves_place(self, call: Call) -> bool:
        """Its programs start from anywhere."""
        return False

    def _reach(self, call: Call | None) -> ReachPlan | None:
        """How a skill will reach its thing, as far as is known before the way there."""
        if call is None:
            return None
        if call.skill == "pick":
            target = self._targets[call.target]
            return oracle_objects.plan_pick(self._body, target.object, self._pitches(target))
        if call.skill == "place":
            target = self._targets[call.target]
            return oracle_place.plan_place(self._body, target.object, self._goal(call))
        if call.skill.startswith("open"):
            return oracle_doors.plan_handle(self._body, call.entity)
        return None

    def _goal(self, call: Call) -> np.ndarray:
        """Where a place ends, [3] m, world."""
        return np.array(self._targets[call.destination].goal)

    def _pitches(self, target: Target) -> tuple[float, ...]:
        """How to approach a target so that it can be set down where it has to go."""
        kind = self._body.sim.object_kind(target.object)
        return pick_pitches(kind, target, self._body.sim.object_pos_w(target.object))


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
