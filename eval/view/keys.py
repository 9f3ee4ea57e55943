"""The keys, and the person at them as an agent: what is held down becomes an action.

The hand is driven in space, in the directions of the robot's base (`skills/motion/hand_space.py`);
dragging it with the mouse adds to the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.hand_space import (
    CONTROL_HZ,
    HAND_SPEED,
    HandMotion,
    hand_step,
    step_to_rest,
)
from rearrange.skills.motion.kinematics import ee_pose
from rearrange.skills.skill import ACTION_SIZE, ARM, BASE, GRIP, STOP

DRIVE, TURN = 0.6, 0.4  # of the base's full speed: 0.6 m/s and 1 rad/s can be steered by hand
FINE = 0.25  # of these speeds and the hand's, with the key for it
LEAST_PULLED = 0.1  # of a step's way counts as gone, lest the hand pulls at what it cannot reach
FURTHEST_PULL = 0.3  # m that the mouse may be ahead of the hand
MOTOR_LEAD = 0.15  # rad that motors run ahead at most: an arm that is blocked obeys at once


class Key(NamedTuple):
    """A key, or two of opposite meaning, as the page shows them."""

    keys: tuple[str, ...]
    meaning: str
    shown: str


DRIVING: tuple[Key, ...] = (
    Key(("w", "s"), "drive forward, back", "W S"),
    Key(("a", "d"), "turn left, right", "A D"),
    Key(("ArrowUp", "ArrowDown"), "hand forward, back", "↑ ↓"),
    Key(("ArrowLeft", "ArrowRight"), "hand left, right", "← →"),
    Key(("r", "f"), "hand up, down", "R F"),
    Key(("t", "g"), "tilt the hand up, down", "T G"),
    Key(("q", "e"), "turn the hand left, right", "Q E"),
    Key(("c",), "hold: arm back to its place of rest", "C"),
    Key((" ",), "suction on, off", "space"),
    Key(("Shift",), "hold: slowly", "shift"),
    Key(("x",), "say that the task is done", "X"),
)
COMMANDS: tuple[Key, ...] = (
    Key(("p",), "pause, go on", "P"),
    Key((".",), "one step", "."),
    Key(("Backspace",), "the same episode again", "backspace"),
    Key(("Enter",), "next episode", "enter"),
    Key(("o",), "hand over to the agent, take back", "O"),
    Key(("k",), "keep this as a demonstration", "K"),
)
MOUSE: tuple[tuple[str, str], ...] = (
    ("drag", "look around"),
    ("wheel", "nearer, farther"),
    ("shift + drag, or right button", "move the hand"),
    ("shift + wheel", "hand away, towards you"),
)
_DRIVING_KEYS = frozenset(key for entry in DRIVING for key in entry.keys)


def is_driving(keys: frozenset[str] | tuple[str, ...]) -> bool:
    """Whether any of the keys moves the robot: the clock starts with the first of them."""
    return bool((_DRIVING_KEYS - {"Shift"}).intersection(keys))


class Person:
    """Turns held keys and the mouse into actions, as an `Agent` does.

    Args:
        sim: of the environment that is driven.
        held_keys: gives those that are down now.
    """

    failure: str | None = None
    plan_lines: list[str] = []

    def __init__(self, sim: Any, held_keys: Callable[[], frozenset[str]]) -> None:
        self._sim, self._held_keys = sim, held_keys
        self.attempts: list[tuple[str, bool]] = []
        self.is_sucking = False
        self._pull = np.zeros(3)
        self._is_done = False

    @property
    def status(self) -> str:
        """What the person alone decides on."""
        return f"suction {'on' if self.is_sucking else 'off'}"

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        """Begins with suction as it is: on where something is held."""
        self._sim.motor_lead = MOTOR_LEAD
        self.is_sucking, self._is_done = bool(self._sim.is_holding), False
        self._pull[:] = 0.0

    def press(self, key: str) -> None:
        """Takes a key that went down."""
        if key == " ":
            self.is_sucking = not self.is_sucking
        self._is_done |= key == "x"

    def pull(self, way_b: np.ndarray) -> None:
        """The mouse drags the hand by [3] m, base axes."""
        self._pull += way_b
        self._pull *= min(1.0, FURTHEST_PULL / max(float(np.linalg.norm(self._pull)), 1e-9))

    def act(self, observation: Any, info: dict[str, Any]) -> np.ndarray:
        """The action [11] of this control step."""
        held = self._held_keys()
        share = FINE if "Shift" in held else 1.0

        def axis(forward: str, backward: str) -> float:
            return share * (float(forward in held) - float(backward in held))

        action = np.zeros(ACTION_SIZE, np.float32)
        if "c" in held:
            step = step_to_rest(self._sim.arm_qpos)
            step += self._sim.arm_qpos - self._sim.arm_target  # from where the arm is
        else:
            way = self._next_pull()
            by_mouse = way * (CONTROL_HZ / HAND_SPEED)
            hand = HandMotion(
                axis("ArrowUp", "ArrowDown") + by_mouse[0],
                axis("ArrowLeft", "ArrowRight") + by_mouse[1],
                axis("r", "f") + by_mouse[2],
                axis("t", "g"),
                axis("q", "e"),
            )
            step = hand_step(self._sim.arm_target, hand)
            self._pulled(way, step)
        action[ARM] = np.clip(step / fetch.MAX_ARM_STEP, -1.0, 1.0)
        action[GRIP] = 1.0 if self.is_sucking else -1.0
        action[BASE] = DRIVE * axis("w", "s"), TURN * axis("a", "d")
        action[STOP] = 1.0 if self._is_done else -1.0
        self._is_done = False
        return action

    def _next_pull(self) -> np.ndarray:
        """What of the mouse's way the hand is to go in this step, [3] m."""
        longest = HAND_SPEED / CONTROL_HZ
        return self._pull * min(1.0, longest / max(float(np.linalg.norm(self._pull)), 1e-9))

    def _pulled(self, way: np.ndarray, step: np.ndarray) -> None:
        """The arm goes a step of [7] rad for the mouse's way; what is out of reach is forgotten."""
        if way.any():
            target = self._sim.arm_target
            moved = ee_pose(target + step)[0] - ee_pose(target)[0]
            share = float(moved @ way) / float(way @ way)
            self._pull -= min(max(share, LEAST_PULLED), 1.0) * way
