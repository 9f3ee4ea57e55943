"""Where a teacher's base drives: towards its target, facing it.

    goal --> the way there, as far as the camera has seen the floor --> a point ahead --> wheels
    place before a thing --> the way there, by the floor plan --------------^

Nothing is planned further than the way over the floor, which is found anew every few steps. Whoever
teaches where to go by what the student does not see either, has one that can follow.
"""

from __future__ import annotations

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.collision import BOX, Obstacles
from rearrange.skills.motion.driving import clipped, wrapped
from rearrange.skills.motion.robot import Robot
from rearrange.skills.teacher.retreat import BACK, Base
from rearrange.tasks.floor_way import FloorWay

NEAR, FAR = 1.02, 1.12  # m, from base to a thing: the arm begins to work, has to stop working
COMFORT = (0.48, 0.70)  # m, distances at which the base stands still
APPROACH = 6.0  # share of the base's speed per m outside of these
FACING = 0.15  # rad
RIDGE_NEAR = 0.12  # m around what is reached for that do not count
RIDGE_ASIDE = 0.05  # m beside the way that count
LOOKAHEAD = 0.35  # m along the way
REPLAN_STEPS = 10
WIDE = 3.0  # of how much longer a way may be that keeps off furniture; the student drives worse
SWEEP = (0.12, 0.3, 0.55)  # rad ahead of a turn at which the arm has to be clear
CLEAR, CLEARED = 0.03, 0.07  # m, of the arm: below it backs off, until it is clear by the second
AHEAD = 0.1  # m that it looks ahead of the arm
BACKING = 0.1  # m/s that count as backing off
ABOUT, TURNING = 1.6, 0.3  # rad that count as turning about, rad/s that count as turning


class Steering:
    """What the rules of all skills know about driving.

    Args:
        robot: in the simulation to act in.

    Attributes:
        place: where the base should stand, [2] m, world.
    """

    def __init__(self, robot: Robot) -> None:
        self.robot, self.sim = robot, robot.sim
        self._path: np.ndarray | None = None  # corners [n, 2] of the way, m, world
        self._age = 0  # control steps since it was planned
        self._has_arrived = False
        self.place = np.array(self.sim.base_pose[:2])
        world = self._world = robot.world_obstacles()
        is_box = (world.kind == BOX) & (world.rot[:, 2, 2] > 0.99)  # upright: furniture
        self._boxes = Obstacles(
            world.kind[is_box], world.pos[is_box], world.rot[is_box], world.size[is_box]
        )

    def drive_to(self, place: np.ndarray, yaw: float) -> np.ndarray | None:
        """Base action [2] towards a place on the floor and a yaw there; None: it is there."""
        x, y, now = self.sim.base_pose
        away = float(np.hypot(place[0] - x, place[1] - y))
        if away > 0.08:
            return self.steer(self.carrot(place), away)
        error = wrapped(yaw - now)
        return None if abs(error) < FACING else np.array([0.0, self.turn(error)])

    def steer(self, carrot: np.ndarray, left: float) -> np.ndarray:
        """Towards a point ahead, slower near the end of the way; `left` m of it."""
        return self._towards_it(self.towards(carrot)[1], left)

    def follow(self, way: FloorWay, left: float) -> np.ndarray:
        """The same along a way over the floor as far as it has been seen."""
        ahead, aside = way.ahead(LOOKAHEAD)
        return self._towards_it(float(np.arctan2(aside, ahead)), left)

    def _towards_it(self, error: float, left: float) -> np.ndarray:
        """Base action [2] to undo an error in heading, rad, and to drive on."""
        pace = clipped(2.5 * left, 0.15, 1.0) * max(np.cos(2.2 * clipped(error, -0.71, 0.71)), 0.0)
        return self.past_obstacles(np.array([pace, self.turn(error)]), error)

    def past_obstacles(self, base: np.ndarray, error: float) -> np.ndarray:
        """A base action [2] after which the arm does not hit furniture, where there is another.

        The way over the floor is that of the base; the arm, 0.6 m ahead of it, turns into walls and
        tall furniture. Where it would, the base backs off until there is room for the turn; where
        driving on would do so, it turns on the spot.

        Args:
            error: in heading, rad, that the turn is to undo.
        """
        x, y, yaw = self.sim.base_pose
        margin = CLEARED if self.is_backing else CLEAR
        sign = float(np.sign(base[1]))
        turns = [sign * angle for angle in SWEEP if angle < abs(error) + SWEEP[0]]
        if abs(error) > SWEEP[0] and any(self.arm_room(x, y, yaw + t) < margin for t in turns):
            return np.array(self.backed(BACK)) if self.has_room_behind() else base
        ahead = (x + AHEAD * np.cos(yaw), y + AHEAD * np.sin(yaw))
        if base[0] > 0.0 and abs(error) > SWEEP[0] and self.arm_room(*ahead, yaw) < CLEAR:
            return np.array([0.0, base[1]])
        return base

    @property
    def is_backing(self) -> bool:
        """Whether it backs off, and goes on doing so until there is more than enough room."""
        return self.sim.base_speed < -BACKING

    def backed(self, base: Base) -> Base:
        """The base action now of one who has to back off by `base`."""
        return base

    def has_room_behind(self) -> bool:
        """Whether the base can go straight back a little."""
        x, y, yaw = self.sim.base_pose
        return self.sim.floor_plan().is_free(x - 0.1 * np.cos(yaw), y - 0.1 * np.sin(yaw))

    def arm_room(self, x: float, y: float, yaw: float) -> float:
        """How far the arm as it is now would be from everything with the base elsewhere, m."""
        return self.robot.clearance(self.sim.arm_qpos, (x, y, yaw), self._world)

    def turn(self, error: float) -> float:
        """Share of the base's turning speed for an error in heading, rad.

        A robot that is turning about goes on that way round. Which is the shorter may depend on
        what the student does not see; it does see which way it turns, and does not stop half-way.
        """
        rate = self.sim.base_turn_rate
        if abs(error) > ABOUT and abs(rate) > TURNING and rate * error < 0.0:
            error -= float(np.copysign(2.0 * np.pi, error))
        return turn_for(error)

    def carrot(self, goal: np.ndarray) -> np.ndarray:
        """A point on the shortest way to a place, a little ahead of the base, [2]."""
        here = np.array(self.sim.base_pose[:2])
        path = self._path
        if path is None or np.hypot(*(goal - path[-1])) > 0.1 or self._age >= REPLAN_STEPS:
            plan = self.sim.floor_plan()
            found = None if plan.largest < 0 else plan.shortest_path(here, goal, WIDE)
            path = self._path = np.stack([here, goal]) if found is None else found
            self._age = 0
        self._age += 1
        return point_ahead(path, here, LOOKAHEAD)

    def ridge(self, start, point: np.ndarray) -> float:
        """How high (m) furniture rises between a place and what is reached for; 0: nothing."""
        way = np.asarray(point[:2]) - np.asarray(start[:2])
        length = float(np.hypot(*way))
        if length < RIDGE_NEAR:
            return 0.0
        shares = np.arange(0.0, 1.0 - RIDGE_NEAR / length, 0.04 / length)
        points = np.asarray(start[:2]) + shares[:, None] * way  # [P, 2]
        boxes, half = self._boxes, self._boxes.size + RIDGE_ASIDE
        x, y = (points[:, None, i] - boxes.pos[:, i] for i in (0, 1))  # [P, K]; einsum is slow
        is_over = np.abs(x * boxes.rot[:, 0, 0] + y * boxes.rot[:, 1, 0]) < half[:, 0]
        is_over &= np.abs(x * boxes.rot[:, 0, 1] + y * boxes.rot[:, 1, 1]) < half[:, 1]
        tops = boxes.pos[:, 2] + boxes.size[:, 2]
        return float(tops[is_over.any(axis=0)].max(initial=0.0))

    def stance(self, way: FloorWay, point: np.ndarray) -> tuple[np.ndarray, bool]:
        """Base action [2] that brings a point within the arm's reach and faces it.

        Also whether it is near enough for the arm to work. It goes by the way, by distance and
        bearing, so that who sees no more than these can tell what it does.
        """
        x, y, yaw = self.sim.base_pose
        away, bearing = self.towards(point)
        ahead, aside = way.end()
        left = float(np.hypot(ahead, aside))
        if away > (FAR if self._has_arrived else NEAR) and left > 0.06:
            self._has_arrived = False
            return self.follow(way, left), False
        self._has_arrived = True
        beyond = np.hypot(away * np.cos(bearing) - ahead, away * np.sin(bearing) - aside)
        # Where it ends farther away, it ends there to turn the arm; then it goes straight on.
        far = max(COMFORT[1], float(beyond) + 0.03 if beyond < FAR else 0.0)
        # It comes to a stop: a student that follows a jump from driving to standing stops short.
        pace = APPROACH * (max(away - far, 0.0) - max(COMFORT[0] - away, 0.0))
        pace = clipped(pace, -0.5, 0.5) if abs(bearing) < 0.5 else 0.0
        if pace != 0.0:
            plan, step = self.sim.floor_plan(), np.sign(pace) * 0.08
            if plan.is_free(x, y) and not plan.is_free(
                x + step * np.cos(yaw), y + step * np.sin(yaw)
            ):
                pace = 0.0
        turn = self.turn(bearing) if abs(bearing) > 0.1 else 0.0
        return np.array([pace, turn]), abs(bearing) < 0.7

    def towards(self, point: np.ndarray) -> tuple[float, float]:
        """How far a point is from the base, m, and how far beside straight ahead, rad."""
        x, y, yaw = self.sim.base_pose
        away = float(np.hypot(point[0] - x, point[1] - y))
        return away, wrapped(float(np.arctan2(point[1] - y, point[0] - x)) - yaw)


def shortened(vector: np.ndarray, longest: float) -> np.ndarray:
    """A vector in the same direction, no longer than that."""
    return vector * min(1.0, longest / max(float(np.linalg.norm(vector)), 1e-9))


def turn_for(error: float) -> float:
    """Share of the base's turning speed for an error in heading, rad."""
    return clipped(3.0 * error / fetch.MAX_BASE_TURN, -1.0, 1.0)


def point_ahead(path: np.ndarray, here: np.ndarray, distance: float) -> np.ndarray:
    """The point [2] of a path [n, 2] that lies `distance` m along it from where it is nearest."""
    best, at = np.inf, (0, 0.0)
    for i, (a, b) in enumerate(zip(path, path[1:], strict=False)):
        length = max(float(np.hypot(*(b - a))), 1e-9)
        t = clipped((here - a) @ (b - a) / length, 0.0, length)
        off = float(np.hypot(*(a + (b - a) * t / length - here)))
        if off < best - 1e-9:
            best, at = off, (i, t)
    i, t = at
    t += distance
    while i < len(path) - 1:
        length = max(float(np.hypot(*(path[i + 1] - path[i]))), 1e-9)
        if t <= length:
            return path[i] + (path[i + 1] - path[i]) * t / length
        i, t = i + 1, t - length
    return path[-1]
