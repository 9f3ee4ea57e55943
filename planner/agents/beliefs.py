"""The robot's beliefs about objects that are no longer where the episode began.

The start sensors always give an object's initial position, like Habitat's. The robot keeps track of
its own actions without seeing the object:

    it pulled a drawer open    the object in it moved along, as far as the joint sensor shows
    it let the object go       it lies below the hand's position then: at the height of the goal as
                               it places, else on the floor
    it took over by then       what has been moved lies where it lay as the robot took over

After that nothing is read from the object. An object that fell, rolled or was knocked over stays
lost. The drawer's joint is read from the simulator here; `planner.agents.memory` does without that.
"""

from __future__ import annotations

import math

import numpy as np

from rearrange.planner.home.calls import Call
from rearrange.sim.home.furniture import DRAWERS
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec

ELSEWHERE = 0.05  # m from its start, further than objects settle
SLIDES = 0.25  # m at most, of what lies in a drawer that was pulled out
FLOOR = 0.03  # m, centre height of an object on the floor: half of a small one


class Beliefs:
    """The beliefs of one episode, about all its targets."""

    def __init__(self, sim: Simulation, episode: EpisodeSpec) -> None:
        self._sim, self._targets = sim, episode.targets
        self._places = {target.name: place for place, target in enumerate(episode.targets)}
        self._let_go: dict[int, np.ndarray] = {}  # by target: where, [3] m, world
        self._first = {joint: sim.joint_position(joint) for joint in DRAWERS}
        self._came_along: dict[int, np.ndarray] = {}  # by target: with a drawer before, [3] m
        for place, target in enumerate(self._targets):  # who takes over finds the world as it is
            now = sim.object_pos_w(target.object)
            if sim.held_object != target.object and math.dist(now, target.start) > ELSEWHERE:
                self._find(place, now - np.array(target.start))
        self._call: Call | None = None  # the running skill
        self._was_holding = False
        self._held = next(  # the target in the hand
            (i for i, target in enumerate(self._targets) if sim.held_object == target.object), None
        )

    def _find(self, place: int, moved: np.ndarray) -> None:
        """A target has been moved by [3] m before the robot took over, with its drawer or alone."""
        target = self._targets[place]
        joint = target.start_container
        if joint in DRAWERS and self._first[joint] > ELSEWHERE:
            out = np.array(self._sim.data.joint(joint).xaxis)
            if math.dist(moved, self._first[joint] * out) < SLIDES:
                self._came_along[place] = moved
                return
        self._let_go[place] = np.array(target.start) + moved

    def begin(self, call: Call | None) -> None:
        """Sets the running skill; None: none of the plan."""
        self._call = call

    def feel(self, is_holding: bool) -> None:
        """Call once per control step with whether the suction holds something."""
        if is_holding == self._was_holding:
            return
        self._was_holding = is_holding
        call, held = self._call, self._held
        is_its = call is not None and (call.is_picking or call.is_placing)
        target = self._places[call.target] if call is not None and is_its else held
        self._held = target if is_holding else None
        if target is None:
            return
        if is_holding:
            self.taken(target)
        elif call is not None and call.is_placing:
            self.let_go(target, self._places[call.destination])
        else:
            self._let_go[target] = np.array([*self._sim.ee_pos_w[:2], FLOOR])

    def let_go(self, target: int, goal: int) -> None:
        """The hand has just released a target, over some goal."""
        x, y, _ = self._sim.ee_pos_w
        self._let_go[target] = np.array([x, y, self._targets[goal].goal[2]])

    def taken(self, target: int) -> None:
        """It is in the hand: forgets where it was released before."""
        self._let_go.pop(target, None)
        self._came_along.pop(target, None)

    def offset(self, target: int) -> np.ndarray:
        """From a target's initial position to its believed one, [3] m, world."""
        spec = self._targets[target]
        if target in self._let_go:
            return self._let_go[target] - np.array(spec.start)
        joint, before = spec.start_container, self._came_along.get(target, np.zeros(3))
        return before + (self._pulled(joint) if joint in DRAWERS else 0.0)

    def _pulled(self, joint: str) -> np.ndarray:
        """Displacement of a drawer since the episode began, [3] m, world."""
        moved = self._sim.joint_position(joint) - self._first[joint]
        return moved * np.array(self._sim.data.joint(joint).xaxis)
