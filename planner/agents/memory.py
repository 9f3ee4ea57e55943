"""What the robot remembers of an episode, facts and places, by its own doing and feeling alone.

    given with the task              what lies in which drawer, what is shut: HAB's first state
    the hand closes in Pick          the target is held, and in no container
    the hand opens in Place          the target lies at the goal, if the hand was near it
    the hand opens anywhere else     the target lies below, on the floor
    the hand moves with a handle     the drawer has come out, the door has turned by so much
    a door or drawer was closed      it is shut, if the skill said so

Sensed are the suction and where the hand is: by the joints and the localisation that HAB's start,
goal and compass sensors are made of. A thing that rolled away, was knocked over or is not the one
that was meant is believed to be where it should be. No look at the world corrects that.
"""

from __future__ import annotations

import math
from copy import deepcopy

import numpy as np

from rearrange.planner.agents.beliefs import Beliefs
from rearrange.planner.home.calls import Call
from rearrange.planner.home.facts import HomeFacts, goal_name
from rearrange.sim.home import furniture as fur
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.predicates import AT_GOAL, CLOSED, OPENED

SURE = 0.9  # share of an opening that counts as all of it: the hand slips and pivots on the handle
BESIDE = (
    1.0  # m from a goal, within which what is let go lies as high as the goal, else on the floor
)
FLOOR = 0.03  # m, height of what lies on the floor: half of a small object


class Memory(Beliefs):
    """One episode's.

    Args:
        first: what holds at the beginning; copied.
    """

    def __init__(self, sim: Simulation, episode: EpisodeSpec, first: HomeFacts) -> None:
        super().__init__(sim, episode)
        self.facts = deepcopy(first)
        self._goals = {target.name: np.array(target.goal) for target in episode.targets}
        self._homes = {target.name: target.goal_container for target in episode.targets}
        self._ways: dict[str, list[np.ndarray]] = {}  # of handles in the hand: [3] m, world
        self._shift = np.zeros(3)  # from the hand to the held handle on its way

    def feel(self, is_holding: bool) -> None:
        """Once a control step: whether the suction holds something."""
        was_holding = self._was_holding
        super().feel(is_holding)
        hand = np.array(self._sim.ee_pos_w)
        if was_holding and not is_holding and self.facts.held is not None:
            self._has_let_go(self.facts.held, hand)
        handle = self._handle()
        if is_holding and handle is not None and self.facts.held is None:
            way = self._ways.setdefault(handle, [hand])
            if not was_holding:  # a handle stays where it was left
                self._shift = way[-1] - hand
            way.append(hand + self._shift)
        elif is_holding and not was_holding and self._call and self._call.skill == "pick":
            self.facts.held = self._call.target
            self.facts.placed.pop(self._call.target, None)
            self.facts.containers[self._call.target] = None

    def end(self, call: Call, failure: str | None) -> None:
        """A skill has ended, of itself or because of `failure`."""
        if call.entity not in fur.MARKERS or call.skill == "navigate":
            return
        if call.skill.startswith("close"):
            if failure is None:
                self.facts.states[call.entity] = "closed"
                self._ways.pop(call.entity, None)
            return
        kind = fur.MARKERS[call.entity].split("_")[0]
        opening = self.opening(call.entity)
        if opening > SURE * OPENED[kind]:
            self.facts.states[call.entity] = "open"
        elif opening > CLOSED and self.facts.states[call.entity] == "closed":
            self.facts.states[call.entity] = "between"

    def opening(self, marker: str) -> float:
        """How far a drawer has come out (m), or a door has turned (rad), in the robot's hand."""
        way = np.array(self._ways.get(marker, []))
        if len(way) < 2:
            return 0.0
        if fur.MARKERS[marker] in fur.DRAWERS:
            return float(np.linalg.norm((way[-1] - way[0])[:2]))
        return turned(way[:, :2])

    def _handle(self) -> str | None:
        """The handle that the skill at work is about."""
        if self._call is None or self._call.skill in ("navigate", "pick", "place"):
            return None
        return self._call.entity

    def _has_let_go(self, held: str, hand: np.ndarray) -> None:
        self.facts.held = None
        place = self._places[held]
        is_placing = self._call is not None and self._call.skill == "place"
        goal = self._call.destination if is_placing else held
        away = math.dist(hand[:2], self._goals[goal][:2])
        if is_placing and away < AT_GOAL:
            self.facts.placed[held] = goal_name(goal)
            joint = self._homes[goal]
            self.facts.containers[held] = fur.MARKER_OF_JOINT[joint] if joint else None
        height = self._goals[goal][2] if is_placing and away < BESIDE else FLOOR
        self._let_go[place] = np.array([*hand[:2], height])

    def _pulled(self, joint: str) -> np.ndarray:
        way = self._ways.get(fur.MARKER_OF_JOINT.get(joint, ""), [])
        if len(way) < 2:
            return np.zeros(3)
        return np.array([*(way[-1] - way[0])[:2], 0.0])


def turned(way: np.ndarray) -> float:
    """The angle (rad) of an arc from its first to its last point, by the circle fitted to it.

    Args:
        way: [N, 2] points along the arc, m.

    The fit is Kasa's (1976): p p = 2 c p + k is linear in the centre c. 0 for less than 5 cm of
    way, of which no circle can be told.
    """
    points = way - way.mean(axis=0)
    if np.ptp(points, axis=0).max() < 0.05:
        return 0.0
    rows = np.column_stack([2.0 * points, np.ones(len(points))])
    solution, *_ = np.linalg.lstsq(rows, (points**2).sum(axis=1), rcond=None)
    spokes = points[[0, -1]] - solution[:2]
    first, last = np.arctan2(spokes[:, 1], spokes[:, 0])
    return abs(math.remainder(float(last - first), 2.0 * math.pi))
