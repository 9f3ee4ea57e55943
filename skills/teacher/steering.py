"""Where a teacher's base drives: towards its target, facing it.

    thing --> a place at arm's length of it --> the way there --> a point ahead --> wheels

Nothing is planned further than the way over the floor, which is found anew every few steps.
"""

from __future__ import annotations

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.collision import BOX, Obstacles
from rearrange.skills.motion.driving import clipped, wrapped
from rearrange.skills.motion.motion import ARM_REST
from rearrange.skills.motion.reach import HandMaker, find_postures, wrist_in_reach
from rearrange.skills.motion.robot import Robot
from rearrange.skills.teacher.retreat import BACK, Base

NEAR, FAR = 1.02, 1.12  # m, from base to a thing: the arm begins to work, has to stop working
COMFORT = (0.48, 0.70)  # m, distances at which the base stands still
RINGS = ((0.47, 0.82), (0.3, 0.95), (0.0, 1.3))  # m, from base to what is reached for
MAX_PLACES = 60  # of those that are listed
MAX_TRIED = 24
GOOD_ENOUGH = 0.2  # m, penalty of a hand pose up to which no other place is tried
APART = 0.1  # m between the places that are tried
APPROACH = 6.0  # share of the base's speed per m outside of these
FACING = 0.15  # rad
RIDGE = 0.12  # m above what is reached for; what is higher stands in between
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
        x, y, yaw = self.sim.base_pose
        error = wrapped(np.arctan2(carrot[1] - y, carrot[0] - x) - yaw)
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

    def choose(self, point: np.ndarray, hands: HandMaker, touchable: Obstacles, **how) -> None:
        """Picks where to stand to bring the hand to a point.

        Of the places at arm's length the first, in the order of the way there, in which the arm
        comes clear of everything; if there is none, the first.
        """
        sim = self.sim
        x, y, yaw = sim.base_pose
        places = self.places_near(point)
        # First from where nothing stands in between: a chair is reached from its open side.
        low = [self.ridge((x, y), point) < point[2] + RIDGE for x, y in places]
        places = places[np.argsort(np.logical_not(low), kind="stable")] if len(places) else places
        held, best = self.robot.held_spheres(), None
        for px, py in places[:MAX_TRIED]:
            heading = float(np.arctan2(point[1] - py, point[0] - px))
            for hand in hands(heading):
                if not wrist_in_reach(hand, px, py):
                    continue
                rows = find_postures((px, py, heading), hand, touchable, held, now=ARM_REST, **how)
                if rows is None:
                    continue
                cost = hand.penalty
                if best is None or cost < best[0]:
                    best = (cost, np.array([px, py]))
                break
            if best is not None and best[0] < GOOD_ENOUGH:
                break
        if best is not None:
            self.place = best[1]
        else:
            self.place = places[0] if len(places) else np.array([x, y])

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

    def places_near(
        self, point: np.ndarray, rings: tuple[tuple[float, float], ...] = RINGS
    ) -> np.ndarray:
        """Where the base may stand to reach a point, [n, 2], the quickest to get to first."""
        plan = self.sim.floor_plan()
        x, y, yaw = self.sim.base_pose
        if plan.largest < 0 or plan.island(*plan.snap(x, y)) != plan.largest:
            return np.empty((0, 2))
        for low, high in rings:
            cells = plan.free_cells_near(point[0], point[1], low, high)
            if len(cells):
                break
        else:
            return np.empty((0, 2))
        field = plan.geodesic_field(x, y)
        away = np.hypot(*(cells - point[:2]).T)
        order = np.argsort(plan.at(field, cells) + np.abs(away - 0.62), kind="stable")
        left = cells[order]
        chosen: list[np.ndarray] = []
        while len(left) and len(chosen) < MAX_PLACES:
            chosen.append(left[0])
            left = left[np.hypot(*(left - left[0]).T) > APART]
        return np.array(chosen)

    def stance(self, point: np.ndarray) -> tuple[np.ndarray, bool]:
        """Base action [2] that brings a point within the arm's reach and faces it.

        Also whether it is near enough for the arm to work. It goes by distance and bearing, so
        that who sees no more than these can tell what it does.
        """
        x, y, yaw = self.sim.base_pose
        away, bearing = self.towards(point)
        left = float(np.hypot(self.place[0] - x, self.place[1] - y))
        if away > (FAR if self._has_arrived else NEAR) and left > 0.06:
            self._has_arrived = False
            return self.steer(self.carrot(self.place), left), False
        self._has_arrived = True
        far = max(COMFORT[1], float(np.hypot(*(self.place - point[:2]))) + 0.03)
        # It comes to a stop: a student that follows a jump from driving to standing stops short.
        pace = APPROACH * (max(away - far, 0.0) - max(COMFORT[0] - away, 0.0))
        pace = clipped(pace, -0.5, 0.5) if abs(bearing) < 0.5 else 0.0
        if pace != 0.0:
            plan, ahead = self.sim.floor_plan(), np.sign(pace) * 0.08
            if plan.is_free(x, y) and not plan.is_free(
                x + ahead * np.cos(yaw), y + ahead * np.sin(yaw)
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
