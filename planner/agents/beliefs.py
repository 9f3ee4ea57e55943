"""Where the robot takes an object to be that is no longer where the episode began.

The start sensors give an object's initial place for ever, as Habitat's do. What the robot itself
has done since it knows without seeing the object:

    it pulled a drawer open    the object in it came along, as far as the joint sensor says
    it let the object go       it lies below where the hand was then, at the height of the goal

Nothing is read from the object. A thing that fell, rolled or was knocked over stays lost.
"""

from __future__ import annotations

import numpy as np

from rearrange.sim.home.furniture import DRAWERS
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec


class Beliefs:
    """One episode's, for all its targets."""

    def __init__(self, sim: Simulation, episode: EpisodeSpec) -> None:
        self._sim, self._targets = sim, episode.targets
        self._let_go: dict[int, np.ndarray] = {}  # by target: where, [3] m, world
        self._first = {joint: sim.joint_position(joint) for joint in DRAWERS}

    def let_go(self, target: int, goal: int) -> None:
        """The hand has just opened with a target, over the goal of one."""
        x, y, _ = self._sim.ee_pos_w
        self._let_go[target] = np.array([x, y, self._targets[goal].goal[2]])

    def taken(self, target: int) -> None:
        """It is in the hand: where it was let go before is of the past."""
        self._let_go.pop(target, None)

    def offset(self, target: int) -> np.ndarray:
        """From a target's initial place to where it is thought to be, [3] m, world."""
        spec = self._targets[target]
        if target in self._let_go:
            return self._let_go[target] - np.array(spec.start)
        joint = spec.start_container
        if joint not in DRAWERS:
            return np.zeros(3)
        moved = self._sim.joint_position(joint) - self._first[joint]
        return moved * np.array(self._sim.data.joint(joint).xaxis)
