"""Backing off, remembered where the student sees it: in the roll of the hand.

    caught, or the way on leads back --> the hand rolls --> it backs off --> the hand rolls back

Who backs off until it is far enough remembers that it does. A student that has this memory nowhere
sees the same a step before and a step after, learns what lies between "on" and "back", and stands
there. The arm's last roll turns the hand about its own axis and moves nothing else; so it holds the
memory, where teacher and student both see it. It takes half a second to change, and the robot
backs off by as much as it has: no label jumps.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.driving import clipped

ROLL = 6  # the joint
ROLL_FROM, ROLL_FULL = 0.15, 0.27  # rad from its start, at which backing off begins and is full
ROLLED, IN_VAIN = 0.40, 0.38  # rad, where it is led to; where it gives up if it still stands
STUCK_STEPS, STALL_STEPS = 12, 40  # of standing still: in touch with something, and without
STUCK = np.array([0.015] * 3 + [0.03] * ROLL)  # m and rad of base and arm, in so many steps
BACK_WAY = 0.16  # m to back off from where it was caught
BACK = (-0.5, 0.0)  # base action of backing off

Base = tuple[float, float]


class Standstill:
    """Whether the robot has moved, but for the roll of its hand."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._poses: deque[np.ndarray] = deque(maxlen=STALL_STEPS)

    def note(self) -> None:
        """Call once in a control step."""
        self._poses.append(np.concatenate([self._sim.base_pose, self._sim.arm_qpos[:ROLL]]))

    def clear(self) -> None:
        self._poses.clear()

    def lasts(self, steps: int) -> bool:
        """Whether it has stood still for so many control steps."""
        if len(self._poses) < steps:
            return False
        return bool((np.abs(self._poses[-1] - self._poses[-steps]) < STUCK).all())


class Retreat:
    """Whether one teacher backs off.

    Attributes:
        wish: base action [2] of backing off that is asked for in this control step, or None.
        is_caught: it has touched something and not moved, and has not got away from there yet.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self.wish: Base | None = None
        self.is_caught = False
        self._has_given_up = False  # it backed off without effect
        self._at = np.zeros(2)  # m, where the base was when it was caught
        self._still = Standstill(sim)

    @property
    def rolled(self) -> float:
        """How far the hand is rolled, rad."""
        return float(self._sim.arm_qpos[ROLL] - fetch.ARM_START[ROLL])

    @property
    def share(self) -> float:
        """How much it backs off now, 0 to 1."""
        return clipped((self.rolled - ROLL_FROM) / (ROLL_FULL - ROLL_FROM), 0.0, 1.0)

    def ask(self, base: Base) -> Base:
        """Asks to back off; until the hand has rolled, the base stands still."""
        self.wish = base
        return 0.0, 0.0

    def notice(self, reaches_in: bool) -> None:
        """Asks to back off if the robot is caught. Call once in a control step, after `ask`.

        Args:
            reaches_in: it reaches into a shelf, where it is caught without touching anything too.
        """
        self._still.note()
        here = np.array(self._sim.base_pose[:2])
        is_touching = self._sim.force_instant > 0.0 and self._still.lasts(STUCK_STEPS)
        if is_touching or (reaches_in and self._still.lasts(STALL_STEPS)):
            if self.rolled > IN_VAIN:
                self._has_given_up = True
            elif not self._has_given_up:
                self.is_caught, self._at = True, here
        if self.share == 0.0:
            self._has_given_up = False
        if self._has_given_up or np.hypot(*(here - self._at)) > BACK_WAY:
            self.is_caught = False
        if self.is_caught and self.wish is None:
            self.wish = BACK

    def roll(self) -> float:
        """The action of the hand's roll, in [-1, 1]."""
        target = 0.0 if self.wish is None else ROLLED
        return clipped((target - self.rolled) / fetch.MAX_ARM_STEP, -1.0, 1.0)
