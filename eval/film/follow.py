"""The video camera: it follows the robot, moves closer while the arm works, and sees through walls.

Walls in between are cut down to a stump by the Painter; furniture fades here.

Legend: N parts of visuals.
"""

from __future__ import annotations

from math import cos, degrees, pi, sin
from typing import Any

import numpy as np

from rearrange.sim.pictures.pictures import FreeCamera
from rearrange.sim.visuals.home_visuals import HomeVisuals

ASIDE_DEG = 58.0  # from the right rather than from behind: the arm hides less of what it does
DOWN_DEG = -27.0
NEAR, FAR = 2.15, 3.0  # m from the robot, while its arm works and while it drives
FAST = 0.35  # m/s: at this speed it counts as driving
EASE = 0.07  # share of the way that the camera goes to where it should be, a frame
FADED = 0.10  # what is left of the colour of furniture in between
CLEAR = 0.20  # m: what is nearer than that to what is looked at is not in between


class FollowCamera:
    """Where the camera is; `step` once a frame.

    Args:
        seconds: of the episode that a frame takes.
    """

    def __init__(self, sim: Any, home_visuals: HomeVisuals, seconds: float) -> None:
        self._sim, self._seconds = sim, seconds
        x, y, self._yaw = sim.base_pose
        self._spot = np.array([x, y])
        self._distance, self._lookat = FAR, self._wanted_lookat()
        self._see_through = SeeThrough(sim, home_visuals)

    def step(self) -> FreeCamera:
        """The camera of this frame; sets how much of the furniture is seen."""
        x, y, yaw = self._sim.base_pose
        speed = float(np.hypot(*(self._spot - (x, y)))) / self._seconds
        self._spot = np.array([x, y])
        turn = (yaw - self._yaw + pi) % (2 * pi) - pi
        self._yaw += EASE * turn  # slowly, or a turn makes one dizzy
        wanted = FAR if speed > FAST else NEAR
        self._distance += 0.5 * EASE * (wanted - self._distance)
        self._lookat += 3 * EASE * (self._wanted_lookat() - self._lookat)
        a, b, c = (float(v) for v in self._lookat)
        camera = FreeCamera(
            (a, b, c), self._distance, degrees(self._yaw) + ASIDE_DEG, DOWN_DEG, 48.0
        )
        self._see_through.step(camera.pose()[0])
        return camera

    def _wanted_lookat(self) -> np.ndarray:
        x, y, yaw = self._sim.base_pose
        hand = self._sim.ee_pos_w
        body = np.array([x + 0.2 * cos(yaw), y + 0.2 * sin(yaw), 0.75])
        return 0.65 * body + 0.35 * np.array([hand[0], hand[1], min(max(hand[2], 0.5), 1.1)])


class SeeThrough:
    """Fades the furniture that stands between a camera and the robot."""

    def __init__(self, sim: Any, home_visuals: HomeVisuals) -> None:
        self._sim, self._home_visuals = sim, home_visuals
        self._fade = dict.fromkeys(home_visuals.pieces, 1.0)
        self._boxes = self._house_boxes()

    def step(self, eye: np.ndarray) -> None:
        """Sets how much of each piece is seen in the next picture, from `eye` [3]."""
        x, y, _ = self._sim.base_pose
        targets = np.array(
            [[x, y, 0.2], [x, y, 0.4], [x, y, 0.75], [x, y, 1.05], self._sim.ee_pos_w]
        )
        for name, boxes in self._boxes.items():
            goal = FADED if _stands_between(boxes, eye, targets) else 1.0
            now = self._fade[name] + 0.2 * (goal - self._fade[name])
            self._fade[name] = 1.0 if now > 0.97 else now
            self._home_visuals.visuals.alphas[self._home_visuals.pieces[name]] = self._fade[name]

    def _house_boxes(self) -> dict[str, np.ndarray]:
        """Boxes around the parts of each piece, [n, 2, 3], as they stand now."""
        solids = self._home_visuals.visuals.solids
        solids.place(self._sim.data)
        boxes = solids.boxes()
        return {name: boxes[parts] for name, parts in self._home_visuals.pieces.items()}


def _stands_between(boxes: np.ndarray, eye: np.ndarray, targets: np.ndarray) -> bool:
    """Whether any box, [n, 2, 3], cuts a line from the eye to a target, [k, 3], well before it."""
    step = targets - eye
    reach = 1.0 - CLEAR / np.linalg.norm(step, axis=1)
    step = np.where(np.abs(step) < 1e-9, 1e-9, step)[:, None]
    near, far = (boxes[None, :, 0] - eye) / step, (boxes[None, :, 1] - eye) / step
    enter, leave = np.minimum(near, far).max(axis=2), np.maximum(near, far).min(axis=2)
    return bool((np.maximum(enter, 0.0) < np.minimum(leave, reach[:, None])).any())
