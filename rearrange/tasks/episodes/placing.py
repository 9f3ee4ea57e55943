"""Samples object placements and robot starts, and checks them in simulation.

receptacle -> reachable spots -> kinds and spots of targets, goals, clutter
goal or object -> free floor near it -> robot there with its arm at rest: touches nothing?
-> 0.5 s of physics: all at rest?
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from rearrange.sim.home.house import (
    REACH_MAX,
    Layout,
    Receptacle,
    floor_plan,
)
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.home.objects import KINDS, ObjectKind
from rearrange.sim.home.standing import has_stands, is_cut_off
from rearrange.sim.homes.layout import layout_spots
from rearrange.sim.robot import fetch
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.piercing import arm_pierces

GAP = 0.025  # m between objects
# In the fridge the hand comes in from the door, above what stands there. Something much taller
# right in front of a target would block it.
LANE = 0.07  # m to either side of what is to be reached, at least: half a hand
LANE_RISE = 0.03  # m that what stands there may be higher
# A sleeping object wakes when what it touches moves. In a drawer it must touch the floor, or it
# would stay in the air while the drawer is pulled away below it. Resting objects sink in by as much
# anyway.
PRESSED = 2e-4  # m
STRAIGHT_CHECKS = 40  # points looked at on the way straight on, up to 2 m: one a cell
SETTLE_STEPS = 15  # control steps, 0.5 s
SETTLE_TOLERANCE = 0.01  # m
ARM_NOISE = 0.1  # rad, joint_start_noise of habitat-lab
DRIVEN_STEP = 0.01  # m
YAW_NOISE = 0.523599  # rad, 30 degrees, hab-spec 4.1

Pose = tuple[float, float, float]  # x, y [m], yaw [rad]


class _ThreadLocal(threading.local):
    """A world for each thread, so that several can draw episodes at the same time."""

    world: Simulation | None = None


_own = _ThreadLocal()


def checker() -> Simulation:
    """The world that generators test in; one for each thread, reset at every use."""
    if _own.world is None:
        _own.world = Simulation()
    return _own.world


class Placer:
    """Distributes objects over the receptacles of one layout without overlap."""

    def __init__(self, layout: Layout, rng: np.random.Generator, opening: dict[str, float]) -> None:
        self.layout, self.rng, self.opening = layout, rng, opening
        self.plan = floor_plan(layout, opening)
        self._spots = layout_spots(layout.id)
        self._taken: dict[str, list[tuple[float, float, float]]] = {}  # by receptacle: x, y, radius
        self._lanes: list[tuple[float, float, float, float]] = []  # in the fridge

    def draw_kind(self, kinds: Sequence[str]) -> ObjectKind:
        """A random kind."""
        return KINDS[kinds[int(self.rng.integers(len(kinds)))]]

    def spot(
        self,
        kind: ObjectKind,
        receptacles: Sequence[Receptacle],
        is_target: bool = False,
        attempts: int = 60,
    ) -> tuple[Receptacle, tuple[float, float, float]] | None:
        """A free, reachable place for the centre of `kind`, then taken; or None.

        Args:
            is_target: the robot has to reach it there, or to place it there.
        """
        for _ in range(attempts):
            receptacle = receptacles[int(self.rng.integers(len(receptacles)))]
            taken = self._taken.setdefault(receptacle.name, [])
            if len(taken) >= receptacle.capacity:
                continue
            if 2 * kind.half_height > receptacle.headroom - 0.02:
                continue
            spots = self._spots[receptacle.name]
            spot = spots[self.rng.integers(len(spots))]
            x, y = (spot + self.rng.uniform(-0.01, 0.01, 2)).tolist()
            radius = kind.footprint_radius + GAP
            if any(math.hypot(x - ox, y - oy) < radius + other for ox, oy, other in taken):
                continue
            if is_target and receptacle.kind == "open" and not self._stands_near(x, y):
                continue
            if receptacle.kind == "fridge":
                if not is_target and self._is_in_the_way(kind, receptacle, x, y):
                    continue
                if is_target:
                    self._lanes.append((x, y, kind.footprint_radius, 2 * kind.half_height))
            taken.append((x, y, kind.footprint_radius))
            x, y = self._shifted(receptacle, x, y)
            sunk = PRESSED if receptacle.kind == "drawer" else 0.0
            return receptacle, (x, y, receptacle.pos[2] + kind.half_height - sunk)
        return None

    def _is_in_the_way(self, kind: ObjectKind, fridge: Receptacle, x: float, y: float) -> bool:
        """Whether a taller object would stand in front of a target in the fridge."""
        c, s = math.cos(fridge.yaw), math.sin(fridge.yaw)
        for at_x, at_y, radius, height in self._lanes:
            ahead = c * (x - at_x) + s * (y - at_y)
            aside = abs(c * (y - at_y) - s * (x - at_x))
            is_before = ahead > 0.0 and aside < kind.footprint_radius + max(radius, LANE)
            if is_before and 2 * kind.half_height > height + LANE_RISE:
                return True
        return False

    def _stands_near(self, x: float, y: float) -> bool:
        """Whether doors, drawers and walls leave floor from which the place can be reached."""
        return has_stands(self.plan, (x, y), (0.45, 0.70), self.layout.walls, enough=6)

    def _shifted(self, receptacle: Receptacle, x: float, y: float) -> tuple[float, float]:
        """The position moved along with an open drawer."""
        if receptacle.kind != "drawer":
            return x, y
        assert receptacle.link is not None  # every drawer has a joint
        opening = self.opening.get(receptacle.link, 0.0)
        return x + opening * np.cos(receptacle.yaw), y + opening * np.sin(receptacle.yaw)

    def placement(self, kind: ObjectKind, pos, receptacle: Receptacle) -> ObjectPlacement:
        """`kind` upright at `pos`, turned at random (in a drawer: square with its walls)."""
        yaw = self.rng.uniform(-np.pi, np.pi)
        if receptacle.kind == "drawer":
            yaw = receptacle.yaw
        quat = (float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2)))
        x, y, z = (float(v) for v in pos)
        return ObjectPlacement(kind.name, (x, y, z), quat)


def noisy_arm(rng: np.random.Generator) -> tuple[float, ...]:
    """HAB's start posture with its noise, within the limits."""
    arm = fetch.ARM_START + rng.normal(0.0, ARM_NOISE, 7)
    return tuple(float(v) for v in np.clip(arm, fetch.ARM_LOWER, fetch.ARM_UPPER))


def start_anywhere(plan: FloorPlan, rng: np.random.Generator) -> tuple[float, float, float]:
    """A random point of the largest island, any heading."""
    x, y = plan.random_free_point(rng)
    return float(x), float(y), float(rng.uniform(-np.pi, np.pi))


def cells_within_way(
    plan: FloorPlan, walls: np.ndarray, point, radius: float, way: float, nearest: float = 0.0
) -> np.ndarray:
    """Free cells [N, 2] from `nearest` to `radius` from `point`.

    Only cells at most `way` m of driving from where the point is reached, with none of `walls`
    in between.
    """
    stands = plan.free_cells_near(point[0], point[1], 0.0, REACH_MAX)
    stands = stands[~is_cut_off(stands, point, walls)]
    if not len(stands):
        return stands
    stand = stands[np.argmin(((stands - np.asarray(point)[:2]) ** 2).sum(axis=1))]
    field = plan.geodesic_field(float(stand[0]), float(stand[1]), way)
    cells = plan.free_cells_near(point[0], point[1], nearest, radius)
    return cells[plan.at(field, cells) <= way]


def within(ring: tuple[float, float], cells: np.ndarray, point) -> np.ndarray:
    """Those of `cells` [N, 2] at a distance within `ring` (m) from a point, seen from above."""
    away = np.hypot(*(cells - np.asarray(point)[:2]).T)
    return cells[(away > ring[0]) & (away < ring[1])]


def around_something(plan: FloorPlan, cells: np.ndarray, point, arm: float) -> np.ndarray:
    """Those of `cells` [N, 2] from which nobody gets to `arm` m of a point by driving straight on.

    A table's corner, with the point farther along its edge, is one.
    """
    ways = np.asarray(point)[:2] - cells  # [N, 2]
    away = np.hypot(*ways.T)
    ends = np.clip(1.0 - arm / np.maximum(away, 1e-9), 0.0, None)  # [N], share of the way driven
    shares = np.linspace(0.0, 1.0, STRAIGHT_CHECKS)
    spots = cells[:, None] + (ends[:, None] * shares)[..., None] * ways[:, None]  # [N, K, 2]
    islands = plan.at(plan.labels, spots.reshape(-1, 2)).reshape(spots.shape[:2])
    return cells[(islands != plan.largest).any(axis=1)]


def start_near(
    cells: np.ndarray, rng: np.random.Generator, point, spread: float | None = None
) -> tuple[float, float, float]:
    """One of `cells` [N, 2] around `point` (seen from above), facing it.

    Args:
        spread: rad, largest error of the heading; None: YAW_NOISE, normally distributed.
    """
    x, y = cells[rng.integers(len(cells))]
    error = rng.normal(0.0, YAW_NOISE) if spread is None else rng.uniform(-spread, spread)
    return float(x), float(y), float(np.arctan2(point[1] - y, point[0] - x) + error)


def driven_on(plan: FloorPlan, base: Pose, length: float, clearance: float) -> Pose:
    """A base that has gone straight on, until its middle is `clearance` m from what is ahead."""
    x, y, yaw = base
    dx, dy = DRIVEN_STEP * math.cos(yaw), DRIVEN_STEP * math.sin(yaw)
    for _ in range(round(length / DRIVEN_STEP)):
        if plan.clearance_at(x + dx, y + dy) < clearance:
            break
        x, y = x + dx, y + dy
    return x, y, yaw


def start_at(
    plan: FloorPlan, rng: np.random.Generator, point, ring: tuple[float, float],
    spread: float | None = None,
) -> tuple[float, float, float] | None:  # fmt: skip
    """Free floor at a distance from `point` within `ring` (m), facing it; None: there is none.

    `spread` is that of `start_near`.
    """
    cells = plan.free_cells_near(point[0], point[1], *ring)
    return start_near(cells, rng, point, spread) if len(cells) else None


def find_start(
    scene: Scene,
    sample: Callable[[], tuple[float, float, float] | None],
    rng: np.random.Generator,
    held: int | None,
    tries: int,
) -> Scene | None:
    """`scene` with the first sampled robot pose that touches nothing, None if there is none.

    Also None when the objects do not stay where they are.
    """
    sim = checker()
    is_loaded = False
    for _ in range(tries):
        base = sample()
        if base is None:
            continue
        candidate = replace(scene, base=base, arm=noisy_arm(rng))
        # What is held has left its place, so that world cannot be used again.
        if is_loaded and held is None:
            sim.set_robot(candidate.base, candidate.arm)
        else:
            sim.reset(candidate)
            is_loaded = True
        if touches_nothing(sim, held):
            if held is not None:
                sim.reset(candidate)
            return candidate if is_settled(sim) else None
    return None


def touches_nothing(sim: Simulation, held: int | None) -> bool:
    """Whether the robot, with object `held` put into its gripper, is clear of everything."""
    if held is not None:
        sim.snap_object(held)
    return not (sim.has_robot_contact() or arm_pierces(sim.model, sim.data))


def is_settled(sim: Simulation) -> bool:
    """Whether every object stays in place during half a second of physics, all awake."""
    return sim.drift(SETTLE_STEPS) < SETTLE_TOLERANCE
