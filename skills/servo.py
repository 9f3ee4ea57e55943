"""Servo: what a simple teacher would do now, from the state as it is.

    state --> where the hand should go next --> one step of arm and base towards it

The oracle plans whole motions; these rules plan nothing further than the next step, so they have an
answer in every state, whoever brought the robot there, and give alike answers in alike states. That
is what a policy can be taught by (`guided.py`). They fail where one has to find a way around
something, which the policy has to learn by itself.
"""

from __future__ import annotations

import numpy as np

from rearrange.sim import fetch
from rearrange.sim import furniture as fur
from rearrange.skills import doors_fridge as fridge
from rearrange.skills import oracle_doors as doors
from rearrange.skills.body import Body, world_to_base_axes
from rearrange.skills.collision import Obstacles
from rearrange.skills.driving import wrapped
from rearrange.skills.kinematics import (
    MAX_BASE_FORWARD,
    MAX_BASE_TURN,
    ee_pose,
    whole_body_step,
)
from rearrange.skills.motion import ARM_REST
from rearrange.skills.oracle_objects import PITCHES, PITCHES_LEVEL, _pick_hands
from rearrange.skills.oracle_place import _place_hands
from rearrange.skills.reach import HandMaker, HandPose, _postures, _wrist_in_reach
from rearrange.skills.skill import BASE, GRIP, STOP
from rearrange.tasks.episode import EpisodeSpec

HAND_SPEED = 0.011  # m a control step
FRIDGE = "fridge_top_door"
NEAR, FAR = 0.82, 0.95  # m, from base to a thing: the arm begins to work, has to stop working
COMFORT = (0.48, 0.74)  # m, distances at which the base stands still
RINGS = ((0.47, 0.82), (0.3, 0.95), (0.0, 1.3))  # m, from base to what is reached for
MAX_PLACES = 24
DAMPING = 0.04
FACING = 0.15  # rad
LOOKAHEAD = 0.35  # m along the way
REPLAN_STEPS = 10
NEAR_REST = 0.11  # m, well within the 0.15 m that tasks ask for


class Servo:
    """What the rules of all skills share.

    Args:
        body: of the simulation that is to be acted in.
    """

    def __init__(self, body: Body) -> None:
        self.body, self.sim = body, body.sim
        self._path: np.ndarray | None = None  # corners [n, 2] of the way, m, world
        self._age = 0  # control steps since it was planned
        self._has_arrived = False
        self.place = np.zeros(2)  # where the base should stand, m, world
        self.ready = ARM_REST  # posture that the arm should be near while it reaches, [7]
        self.hand: HandPose | None = None

    def act(self) -> np.ndarray:
        """The action [11] of this control step."""
        raise NotImplementedError

    # --- base ----------------------------------------------------------------------------------

    def drive_to(self, place: np.ndarray, yaw: float) -> np.ndarray | None:
        """Base action [2] towards a place on the floor and a yaw there; None: it is there."""
        x, y, now = self.sim.base_pose
        away = float(np.hypot(place[0] - x, place[1] - y))
        if away > 0.08:
            return self._steer(self._carrot(place), away)
        error = wrapped(yaw - now)
        return None if abs(error) < FACING else np.array([0.0, _turn(error)])

    def _steer(self, carrot: np.ndarray, left: float) -> np.ndarray:
        """Towards a point ahead, slower near the end of the way; `left` m of it."""
        x, y, yaw = self.sim.base_pose
        error = wrapped(np.arctan2(carrot[1] - y, carrot[0] - x) - yaw)
        pace = np.clip(2.5 * left, 0.15, 1.0) * max(np.cos(1.6 * np.clip(error, -0.98, 0.98)), 0.0)
        return np.array([float(pace), _turn(error)])

    def _carrot(self, goal: np.ndarray) -> np.ndarray:
        """A point on the shortest way to a place, a little ahead of the base, [2]."""
        here = np.array(self.sim.base_pose[:2])
        moved = self._path is None or np.hypot(*(goal - self._path[-1])) > 0.1
        if moved or self._age >= REPLAN_STEPS:
            plan = self.sim.floor_plan()
            path = None if plan.largest < 0 else plan.shortest_path(here, goal)
            self._path = np.stack([here, goal]) if path is None else path
            self._age = 0
        self._age += 1
        return _ahead(self._path, here, LOOKAHEAD)

    def choose(self, point: np.ndarray, hands: HandMaker, touchable: Obstacles, **how) -> None:
        """Picks where to stand to bring the hand to a point, and the posture to do it in.

        Of the places at arm's length the first, in the order of the way there, in which the arm
        comes clear of everything; if there is none, the first.
        """
        sim = self.sim
        x, y, yaw = sim.base_pose
        self.ready = ARM_REST
        places = self._places(point)
        held, best = self.body.held_spheres(), None
        for px, py in places[:MAX_PLACES]:
            heading = float(np.arctan2(point[1] - py, point[0] - px))
            for hand in hands(heading):
                if not _wrist_in_reach(hand, px, py):
                    continue
                rows = _postures((px, py, heading), hand, touchable, held, now=ARM_REST, **how)
                if rows is None:
                    continue
                cost = hand.penalty
                if best is None or cost < best[0]:
                    best = (cost, np.array([px, py]), rows[0], hand)
                break
            if best is not None and best[0] < 0.2:
                break
        if best is None:
            self.place = places[0] if len(places) else np.array([x, y])
            self.hand = None
        else:
            _, self.place, self.ready, self.hand = best

    def _places(
        self, point: np.ndarray, rings: tuple[tuple[float, float], ...] = RINGS
    ) -> np.ndarray:
        """Where the base may stand to reach a point, [n, 2], the quickest to get to first."""
        plan = self.sim.floor_plan()
        x, y, yaw = self.sim.base_pose
        if plan.largest < 0:
            return np.empty((0, 2))
        island = plan.island(*plan.snap(x, y))
        for low, high in rings:
            cells = plan.free_cells_near(point[0], point[1], low, high)
            cells = np.array([cell for cell in cells if plan.island(*cell) == island])
            if len(cells):
                break
        else:
            return np.empty((0, 2))
        field = plan.geodesic_field(x, y)
        iy = ((cells[:, 1] - plan.bounds[1]) / plan.cell).astype(int)
        ix = ((cells[:, 0] - plan.bounds[0]) / plan.cell).astype(int)
        away = np.hypot(*(cells - point[:2]).T)
        order = np.argsort(field[iy, ix] + np.abs(away - 0.62), kind="stable")
        chosen: list[np.ndarray] = []
        for cell in cells[order]:
            if all(np.hypot(*(cell - other)) > 0.1 for other in chosen):
                chosen.append(cell)
            if len(chosen) >= MAX_PLACES:
                break
        return np.array(chosen)

    def go(self, point: np.ndarray) -> tuple[np.ndarray | None, bool]:
        """Base action [2] to the chosen place and to face a point there, None once it does.

        Also whether it is near enough for the arm to begin.
        """
        x, y, yaw = self.sim.base_pose
        left = float(np.hypot(self.place[0] - x, self.place[1] - y))
        bearing = wrapped(np.arctan2(point[1] - y, point[0] - x) - yaw)
        if left > (0.07 if self._has_arrived else 0.05):
            self._has_arrived = False
            return self._steer_back(left, bearing), left < 0.15 and abs(bearing) < 0.5
        self._has_arrived = True
        base = None if abs(bearing) < FACING else np.array([0.0, _turn(bearing)])
        return base, abs(bearing) < 0.5

    def stance(self, point: np.ndarray) -> tuple[np.ndarray, bool]:
        """Base action [2] that brings a point within the arm's reach and faces it.

        Also whether it is near enough for the arm to work. It goes by distance and bearing, so
        that who sees no more than these can tell what it does.
        """
        x, y, yaw = self.sim.base_pose
        away = float(np.hypot(point[0] - x, point[1] - y))
        bearing = wrapped(np.arctan2(point[1] - y, point[0] - x) - yaw)
        left = float(np.hypot(self.place[0] - x, self.place[1] - y))
        if away > (FAR if self._has_arrived else NEAR) and left > 0.06:
            self._has_arrived = False
            return self._steer(self._carrot(self.place), left), False
        self._has_arrived = True
        pace = 0.0
        if abs(bearing) < 0.5 and not COMFORT[0] < away < COMFORT[1]:
            pace = float(np.clip(2.5 * (away - sum(COMFORT) / 2), -0.5, 0.5))
            plan, ahead = self.sim.floor_plan(), np.sign(pace) * 0.08
            if plan.is_free(x, y) and not plan.is_free(
                x + ahead * np.cos(yaw), y + ahead * np.sin(yaw)
            ):
                pace = 0.0
        return np.array([pace, _turn(bearing) if abs(bearing) > 0.1 else 0.0]), abs(bearing) < 0.7

    def _steer_back(self, left: float, bearing: float) -> np.ndarray:
        """Along the way to the place; straight back if it is close behind."""
        x, y, yaw = self.sim.base_pose
        behind = wrapped(np.arctan2(self.place[1] - y, self.place[0] - x) + np.pi - yaw)
        if left < 0.4 and abs(behind) < 0.9:
            pace = np.clip(2.5 * left, 0.15, 1.0) * max(np.cos(1.6 * behind), 0.0)
            return np.array([-float(pace), _turn(behind)])
        return self._steer(self._carrot(self.place), left)

    # --- hand ----------------------------------------------------------------------------------

    @property
    def hand_w(self) -> np.ndarray:
        """Where the motors' targets put the hand, [3] m, world: without the arm's lag."""
        x, y, yaw = self.sim.base_pose
        turn = world_to_base_axes(yaw)
        return turn.T @ ee_pose(self.sim.arm_target)[0] + (x, y, 0.0)

    def move(
        self, step_w: np.ndarray, base_allowed: bool = False, preferred: np.ndarray | None = None,
        weights: np.ndarray | None = None, posture_gain: float = 0.02,
    ) -> np.ndarray:  # fmt: skip
        """Arm, and base where it is allowed, move the hand by [3] m, world."""
        length = float(np.linalg.norm(step_w))
        step_w = step_w * min(1.0, HAND_SPEED / max(length, 1e-9))
        dq, base = whole_body_step(
            self.sim.arm_target, world_to_base_axes(self.sim.base_pose[2]) @ step_w, base_allowed,
            q_preferred=ARM_REST if preferred is None else preferred, weights=weights,
            posture_gain=posture_gain, damping=DAMPING,
        )  # fmt: skip
        return self.body.action(self.sim.arm_target + dq, self._allowed(base))

    def reach(self, target_w: np.ndarray, gain: float = 0.3, **how) -> np.ndarray:
        """The hand a step towards a point [3] m, world."""
        return self.move(gain * (target_w - self.hand_w), **how)

    def over(self, point: np.ndarray, hover: float, tip: np.ndarray | None = None) -> np.ndarray:
        """The hand down onto a point in a funnel: the farther beside it the higher, [3] m step.

        Args:
            tip: what is to come to the point if it is not the hand.
        """
        off = point - (self.hand_w if tip is None else tip)
        beside = float(np.hypot(off[0], off[1]))
        rise = off[2] + float(np.clip(1.6 * (beside - 0.02), 0.0, hover))
        step = np.array([off[0], off[1], 0.0]) * min(1.0, HAND_SPEED / max(2 * beside, 1e-9))
        if rise > 0.05:
            step *= 0.15  # up first
        return step + (0.0, 0.0, float(np.clip(0.3 * rise, -HAND_SPEED, HAND_SPEED)))

    def into(
        self, point: np.ndarray, tip: np.ndarray, outward: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Into a shelf: base still, the ready posture, then straight in. Also how far beside, m.

        Args:
            tip: what is to come to the point, [3] m, world.
            outward: [3] unit, out of the shelf.
        """
        off = tip - point
        along = float(off @ outward)
        beside = float(np.linalg.norm(off - along * outward))
        is_inside = along < 0.3 and beside < 0.3
        if not is_inside or along > 0.2:
            base, _ = self.go(point)
            if base is not None and not is_inside:
                return self.rest(base), beside
            if np.abs(self.ready - self.sim.arm_target).max() > 0.2:
                return self.body.action(self.ready), beside
        wanted = float(np.clip(1.6 * (beside - 0.03), 0.0, 0.15)) if along > 0.1 else 0.0
        aim = point + wanted * outward
        return self.move(0.3 * (aim - tip), preferred=self.ready, posture_gain=0.05), beside

    def draw_out(self, outward: np.ndarray, lift: float) -> np.ndarray:
        """Out of a shelf, the base backing off; the hand rises by `lift` m a control step."""
        step = HAND_SPEED * outward + (0.0, 0.0, lift)
        action = self.move(step, preferred=self.ready, posture_gain=0.05)
        return self._with_base(action, (-0.3, 0.0))

    def get_ready(self, height: float, base) -> np.ndarray:
        """While driving: the hand to a height above the floor, straight ahead."""
        x, y, yaw = self.sim.base_pose
        turn = world_to_base_axes(yaw)
        wanted = np.array([0.58, 0.0, float(np.clip(height, 0.55, 1.2))])
        return self._with_base(self.reach(turn.T @ wanted + (x, y, 0.0)), base)

    def _with_base(self, action: np.ndarray, base) -> np.ndarray:
        if base is not None:
            action[BASE] = base
        return action

    def home(self, over: np.ndarray, room: float) -> np.ndarray:
        """The hand back to its place of rest: up first while it is low over a point [3] m."""
        hand = self.hand_w
        if hand[2] < over[2] + room and np.hypot(*(hand - over)[:2]) < 0.1:
            return self.move(np.array([0.0, 0.0, HAND_SPEED]))
        x, y, yaw = self.sim.base_pose
        wanted = world_to_base_axes(yaw).T @ fetch.EE_REST_B + (x, y, 0.0)
        return self.reach(wanted, preferred=ARM_REST)

    def rest(self, base=(0.0, 0.0)) -> np.ndarray:
        """The arm goes to its place of rest on a straight line through joint space."""
        return self.body.action(ARM_REST, base)

    @property
    def is_resting(self) -> bool:
        return float(np.linalg.norm(self.sim.ee_pos_b - fetch.EE_REST_B)) < NEAR_REST

    def _allowed(self, motion: np.ndarray) -> tuple[float, float]:
        """Base action of a motion (m, rad a control step), without driving into furniture."""
        x, y, yaw = self.sim.base_pose
        plan = self.sim.floor_plan()
        forward = float(motion[0])
        ahead = np.sign(forward) * 0.08
        if plan.is_free(x, y) and not plan.is_free(
            x + ahead * np.cos(yaw), y + ahead * np.sin(yaw)
        ):
            forward = 0.0
        return forward / MAX_BASE_FORWARD, float(motion[1]) / MAX_BASE_TURN


def _turn(error: float) -> float:
    """Share of the base's turning speed for an error in heading, rad."""
    return float(np.clip(3.0 * error / fetch.MAX_BASE_TURN, -1.0, 1.0))


def _ahead(path: np.ndarray, here: np.ndarray, distance: float) -> np.ndarray:
    """The point [2] of a path [n, 2] that lies `distance` m along it from where it is nearest."""
    best, at = np.inf, (0, 0.0)
    for i, (a, b) in enumerate(zip(path, path[1:], strict=False)):
        length = max(float(np.hypot(*(b - a))), 1e-9)
        t = float(np.clip((here - a) @ (b - a) / length, 0.0, length))
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


class PickServo(Servo):
    """Over the object, down to it, up again, rest."""

    HOVER = 0.12  # m above the object's top

    def __init__(self, body: Body, index: int, level_from: np.ndarray | None = None) -> None:
        super().__init__(body)
        self._index = index
        self._start = self.sim.object_pos_w(index).copy()
        self._level_from = level_from  # [3] unit, world: out of the shelf
        pitches = PITCHES if level_from is None else PITCHES_LEVEL
        touchable = body.world_obstacles((self.sim.object_geom(index),))
        self.choose(
            self._start, lambda heading: _pick_hands(self.sim, index, heading, pitches, 0),
            touchable, pre_offset=None, pre_distance=0.1,
        )  # fmt: skip

    def act(self) -> np.ndarray:
        sim = self.sim
        if sim.held_object == self._index:
            return self._carry_home()
        if sim.is_holding:
            return self.rest()
        point = sim.object_pos_w(self._index)
        if self._level_from is not None:
            action, beside = self.into(point, self.hand_w, self._level_from)
            is_there = np.linalg.norm(self.hand_w - point) < 0.13 and beside < 0.06
            action[GRIP] = 1.0 if is_there else -1.0
            return action
        base, is_near = self.stance(point)
        top = point + (0.0, 0.0, sim.object_kind(self._index).half_height)
        if not is_near:
            return self.get_ready(top[2] + self.HOVER, base)
        action = self.move(self.over(top - (0.0, 0.0, 0.015), self.HOVER))
        action[GRIP] = 1.0 if np.linalg.norm(self.hand_w - top) < 0.05 else -1.0
        return self._with_base(action, base)

    def _carry_home(self) -> np.ndarray:
        hand = self.hand_w
        if self._level_from is not None:
            if float((hand - self._start) @ self._level_from) < 0.25:
                lift = 0.1 * (self._start[2] + 0.04 - hand[2])
                return self.draw_out(self._level_from, lift)
            return self.rest((-0.3, 0.0))
        return self.home(self._start, 0.14)


class PlaceServo(Servo):
    """Over the goal with what is held, down, let go, up, rest."""

    HOVER = 0.10  # m above the goal
    RELEASE = 0.035  # m above the goal

    def __init__(
        self, body: Body, index: int, goal: np.ndarray, level_from: np.ndarray | None = None
    ) -> None:
        super().__init__(body)
        self._index, self._target = index, np.asarray(goal, dtype=float)
        self._level_from = level_from
        self.choose(
            self._target, lambda heading: _place_hands(self.sim, index, self._target, heading, 0),
            body.world_obstacles(), pre_offset=np.array([0.0, 0.0, 0.05]), pre_distance=0.08,
        )  # fmt: skip

    def act(self) -> np.ndarray:
        sim, goal = self.sim, self._target
        if not sim.is_holding:
            return self._carry_home()
        held = sim.object_pos_w(self._index) + self.hand_w - sim.ee_pos_w
        off = held - goal
        if self._level_from is not None:
            above = np.array([0.0, 0.0, 0.03])
            action, beside = self.into(goal + above, held, self._level_from)
            along = float(off @ self._level_from)
            return self._let_go() if along < 0.05 and beside < 0.08 else action
        base, is_near = self.stance(goal)
        if not is_near:
            return self.get_ready(goal[2] + self.HOVER + self.hand_w[2] - held[2], base)
        if off[2] < self.RELEASE + 0.015 and np.hypot(off[0], off[1]) < 0.06:
            return self._let_go()
        action = self.move(self.over(goal + (0.0, 0.0, self.RELEASE), self.HOVER, held))
        return self._with_base(action, base)

    def _let_go(self) -> np.ndarray:
        action = self.body.action(self.sim.arm_target)
        action[GRIP] = -1.0
        return action

    def _carry_home(self) -> np.ndarray:
        hand = self.hand_w
        if self._level_from is not None:
            if float((hand - self._target) @ self._level_from) < 0.25:
                return self.draw_out(self._level_from, 0.002)
            return self.rest((-0.3, 0.0) if not self.is_resting else (0.0, 0.0))
        return self.home(self._target, 0.2)


class NavigateServo(Servo):
    """The shortest way to where the target is near, then face it and stop."""

    STANDOFF = (0.6, 1.3)

    def __init__(self, body: Body, point: np.ndarray) -> None:
        super().__init__(body)
        self._point = np.asarray(point, dtype=float)
        places = self._places(self._point, (self.STANDOFF, (0.3, 1.45), (0.0, 3.0)))
        self.place = places[0] if len(places) else np.array(self.sim.base_pose[:2])

    def act(self) -> np.ndarray:
        x, y, yaw = self.sim.base_pose
        off = self._point[:2] - (x, y)
        bearing = wrapped(np.arctan2(off[1], off[0]) - yaw)
        left = float(np.hypot(self.place[0] - x, self.place[1] - y))
        is_there = np.hypot(*off) < self.STANDOFF[1] + 0.05 or left < 0.06
        base = (0.0, _turn(bearing)) if is_there else self._steer(self._carrot(self.place), left)
        action = self.body.action(None, base)
        action[STOP] = 1.0 if is_there and abs(bearing) < 0.2 else -1.0
        return action


class OpenServo(Servo):
    """In front of the handle, to it, pull, let go, back off, rest, stop."""

    def __init__(self, body: Body, marker: str) -> None:
        super().__init__(body)
        self._marker = marker
        self._joint = fur.MARKERS[marker]
        self._kind = doors._kind(self._joint)
        self._wanted = doors.IS_OPEN[self._kind] + (0.025 if self._kind == "drawer" else 0.06)

    def act(self) -> np.ndarray:
        action = self._act()
        is_open = self.sim.joint_position(self._joint) > doors.IS_OPEN[self._kind]
        is_done = is_open and self.is_resting and not self.sim.is_holding
        action[STOP] = 1.0 if is_done else -1.0
        return action

    def _act(self) -> np.ndarray:
        sim, joint = self.sim, self._joint
        handle, outward = self._handle(), doors._outward(sim, joint)
        value = sim.joint_position(joint)
        if sim.is_holding:
            if sim.held_marker == self._marker and value < self._wanted:
                return self._pull(value)
            action = self.rest()
            action[:7], action[GRIP] = 0.0, -1.0
            return action
        ee = sim.ee_pos_w
        if value > doors.IS_OPEN[self._kind]:
            off = ee - handle
            if self._kind == "drawer" and (np.linalg.norm(off) < 0.10 or off @ outward < 0.05):
                return self.reach(ee + 0.1 * outward + (0, 0, 0.05), base_allowed=True)
            near = np.linalg.norm(off[:2]) < 0.35
            return self.rest((-0.3 if near else 0.0, 0.0))
        base = self._stand(handle, outward)
        if base is not None and np.linalg.norm(ee - handle) > 0.3:
            return self.rest(base)
        along = float((ee - handle) @ outward)
        beside = float(np.linalg.norm(ee - handle - along * outward))
        if beside < 0.03 + 0.15 * max(along, 0.0) and along > -0.03:
            action = self.reach(handle - 0.02 * outward)
            action[GRIP] = 1.0 if along < 0.08 else -1.0
            return action
        return self.reach(handle + 0.12 * outward)

    def _handle(self) -> np.ndarray:
        """Where to grip, [3] m world: the fridge's handle is long, and gripped at rest's height."""
        point = self.sim.marker_pos_w(self._marker)
        if self._kind == "fridge":
            point = np.array([point[0], point[1], 0.95])
        return point

    def _stand(self, handle: np.ndarray, outward: np.ndarray) -> np.ndarray | None:
        """Base action towards where the handle is straight ahead; None: it is there."""
        wanted = handle + self.AWAY * outward
        return self.drive_to(wanted[:2], float(np.arctan2(-outward[1], -outward[0])))

    AWAY = 0.8  # m from the handle

    def _pull(self, value: float) -> np.ndarray:
        sim = self.sim
        radius = 1.0 if self._kind == "drawer" else fur.FRIDGE_DOOR_WIDTH
        ahead = value + doors.HAND_SPEED / radius * 1.6
        step_w = doors._carried(sim, self._joint, sim.ee_pos_w, ahead) - sim.ee_pos_w
        return doors._hand_action(self.body, sim.floor_plan(0.28), step_w, self._kind == "drawer")


class CloseDrawerServo(OpenServo):
    """In front of the handle, push, back off, rest, stop."""

    def act(self) -> np.ndarray:
        action = self._act()
        is_shut = self.sim.joint_position(self._joint) < 0.045
        action[STOP] = 1.0 if is_shut and self.is_resting else -1.0
        return action

    def _act(self) -> np.ndarray:
        sim = self.sim
        handle, outward = sim.marker_pos_w(self._marker), doors._outward(sim, self._joint)
        ee = sim.ee_pos_w
        along = float((ee - handle) @ outward)
        if sim.joint_position(self._joint) < 0.03:
            if along < 0.08:
                return self.reach(ee + 0.1 * outward + (0, 0, 0.04))
            return self.rest((-0.2, 0.0))
        beside = float(np.linalg.norm(ee - handle - along * outward))
        base = self._stand(handle, outward)
        if base is not None and (beside > 0.1 or along > 0.3 or along < 0):
            return self.rest(base)
        if beside < 0.05 + 0.15 * max(along, 0.0) and along > -0.02:
            step = -doors.HAND_SPEED * outward + 0.2 * (handle + along * outward - ee)
            return doors._hand_action(self.body, sim.floor_plan(0.28), step, True)
        return self.reach(handle + 0.12 * outward)


class CloseFridgeServo(Servo):
    """The hand as a hook, moved by the base: around the door's edge, push it shut, stop."""

    GAP, RADIUS, SPEED = 0.14, 0.42, 0.9  # m from the edge, m from the hinge, m/s

    def act(self) -> np.ndarray:
        sim = self.sim
        value = sim.joint_position(fridge.JOINT)
        base = (0.0, 0.0) if self.is_resting else (-0.4, 0.0)  # what pressed on it, lets it go
        if value >= fridge.SHUT_ANGLE:
            base = self._push(value) if self._is_outside() else self._go_around()
        action = self.body.action(fridge.HOOK, base)
        action[STOP] = 1.0 if value < 0.045 and self.is_resting else -1.0
        return action

    def _hand(self) -> tuple[float, float, np.ndarray, np.ndarray]:
        """The hand in the door's frame (r, d), m, and the frame's axes, [2] each."""
        hinge, along, out = fridge._door_axes(self.sim)
        hand = self.sim.ee_pos_w[:2] - hinge
        return float(hand @ along), float(hand @ out), along, out

    def _is_outside(self) -> bool:
        r, d, _, _ = self._hand()
        clear = fur.FRIDGE_DOOR_THICKNESS + fridge.HAND_HALF
        return d > clear - 0.01 and r < fridge.HANDLE_R + 0.01

    def _go_around(self) -> np.ndarray:
        r, d, along, out = self._hand()
        over = fridge.HANDLE_D + fridge.HAND_HALF
        if d > over:
            wanted = (self.RADIUS, over + 0.04)
        elif r < fur.FRIDGE_DOOR_WIDTH + 0.6 * self.GAP:
            wanted = (fur.FRIDGE_DOOR_WIDTH + 1.3 * self.GAP, min(d, -fridge.HAND_HALF))
        else:
            wanted = (fur.FRIDGE_DOOR_WIDTH + self.GAP, over + 0.1)
        error = (wanted[0] - r) * along + (wanted[1] - d) * out
        error *= min(1.0, fridge.FAST / max(float(np.linalg.norm(error)), 1e-6))
        return fridge.lead_hand(self.sim, fridge.LEAD_GAIN * error)

    def _push(self, value: float) -> np.ndarray:
        r, _, along, out = self._hand()
        aside = np.clip(fridge.LEAD_GAIN * (self.RADIUS - r), -0.5, 0.5)
        speed = min(self.SPEED, fridge.END_SPEED + fridge.SLOWING * value)
        return fridge.lead_hand(self.sim, -speed * out + aside * along)


def make_servo(body: Body, episode: EpisodeSpec) -> Servo:
    """The rules for an episode of a skill task."""
    target = episode.targets[episode.target_index] if episode.targets else None
    yaw = body.sim.layout.pieces["fridge"][2]
    out = np.array([np.cos(yaw), np.sin(yaw), 0.0])
    if episode.task == "pick":
        return PickServo(body, target.object, out if target.start_container == FRIDGE else None)
    if episode.task == "place":
        level = out if target.goal_container == FRIDGE else None
        return PlaceServo(body, target.object, np.array(target.goal), level)
    if episode.task == "navigate":
        return NavigateServo(body, np.array(target.goal if episode.start_holding else target.start))
    if episode.task.startswith("open"):
        return OpenServo(body, episode.marker)
    if episode.task == "close_drawer":
        return CloseDrawerServo(body, episode.marker)
    if episode.task == "close_fridge":
        return CloseFridgeServo(body)
    raise ValueError(f"no rules for task {episode.task!r}")
