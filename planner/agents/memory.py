"""The robot's memory of an episode: facts and places, from its own actions and touch alone.

    given with the task              what lies in which drawer, what is shut: HAB's first state;
                                     which way a drawer comes out
    the hand closes in Pick          the target is held, and in no container
    the hand opens in Place          the target lies at the goal, if the hand was near it
    the hand opens anywhere else     the target lies below, on the floor
    a skill on a handle says stop    the drawer or door is open, or shut
    ... or is cut off                it is neither, if the hand has moved with the handle

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

BESIDE = (
    1.0  # m from a goal, within which what is let go lies as high as the goal, else on the floor
)
PULLED = 0.45  # m, what the skill that opens drawers is to pull (hab-spec 4.6)
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
        joint = fur.MARKERS[call.entity]
        if failure is not None:
            if self.moved(call.entity) > CLOSED:
                self.facts.states[call.entity] = "between"
        elif call.skill.startswith("close"):
            self.facts.states[call.entity] = "closed"
            self._ways.pop(call.entity, None)
        else:
            self.facts.states[call.entity] = "open"
            if joint in fur.DRAWERS and self.moved(call.entity) < OPENED["drawer"]:
                self._ways[call.entity] = [np.zeros(3), self._opened_unfelt(joint)]

    def moved(self, marker: str) -> float:
        """How far a handle has moved in the robot's hand since it was first held, m."""
        way = self._ways.get(marker, [])
        return float(np.linalg.norm((way[-1] - way[0])[:2])) if way else 0.0

    def _opened_unfelt(self, drawer: str) -> np.ndarray:
        """How far a drawer has come that the arm pulled out without suction, [3] m, world."""
        return PULLED * np.array(self._sim.data.joint(drawer).xaxis)

    def _handle(self) -> str | None:
        """The handle that the skill at work is about."""
        if self._call is None or self._call.skill in ("navigate", "pick", "place"):
            return None
        return self._call.entity

    def _has_let_go(self, held: str, hand: np.ndarray) -> None:
        self.facts.held = None
        place = self._places[held]
        call = self._call
        is_placing = call is not None and call.skill == "place"
        goal = call.destination if call is not None and is_placing else held
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
        out = np.array([*(way[-1] - way[0])[:2], 0.0])
        # pushed in unnoticed and pulled once more, it is no further out than it can be
        return out * min(1.0, fur.DRAWER_TRAVEL / max(float(np.linalg.norm(out)), 1e-9))
