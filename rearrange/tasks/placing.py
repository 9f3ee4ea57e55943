"""Where objects stand and where the robot starts: sampled, then checked in the simulated world.

    receptacle -> reachable spots -> kinds and spots of targets, goals, clutter -> 0.5 s of physics: all at rest?
    goal or object -> free floor near it -> robot there with its arm at rest: touches nothing?
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import mujoco
import numpy as np

from rearrange.sim import fetch
from rearrange.sim.layout import Layout, Receptacle, floor_plan, make_layout, reachable_spots
from rearrange.sim.navigation import FloorPlan
from rearrange.sim.objects import KINDS, SLOTS, ObjectKind
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.sim.simulation import Simulation

GAP = 0.025  # m between objects
TARGET_GAP = 0.06  # m around what is to be picked or placed: room for the gripper
SETTLE_STEPS = 15  # control steps, 0.5 s
SETTLE_TOLERANCE = 0.01  # m
ARM_NOISE = 0.1  # rad, joint_start_noise of habitat-lab
YAW_NOISE = 0.523599  # rad, 30 degrees, hab-spec 4.1


@lru_cache(maxsize=1)
def checker() -> Simulation:
    """The world that generators test in; one a process, reset at every use."""
    return Simulation()


@lru_cache(maxsize=256)
def _spots(layout_id: str, name: str) -> np.ndarray:
    layout = make_layout(layout_id)
    return reachable_spots(layout, floor_plan(layout, {}), layout.receptacle(name))


class Placer:
    """Deals objects onto receptacles of one layout without overlap."""

    def __init__(self, layout: Layout, rng: np.random.Generator, opening: dict[str, float]) -> None:
        self.layout, self.rng, self.opening = layout, rng, opening
        self.plan = floor_plan(layout, opening)
        self._taken: list[tuple[str, float, float, float]] = []  # receptacle, x, y, radius with gap
        self._count: dict[str, int] = {}
        self.shapes = dict.fromkeys(SLOTS, 0)

    def draw_kind(self, kinds: Sequence[str]) -> ObjectKind:
        """A random kind whose shape still has a slot."""
        free = [name for name in kinds if self.shapes[KINDS[name].shape] < SLOTS[KINDS[name].shape]]
        kind = KINDS[free[self.rng.integers(len(free))]]
        self.shapes[kind.shape] += 1
        return kind

    def spot(
        self, kind: ObjectKind, receptacles: Sequence[Receptacle], gap: float, attempts: int = 60
    ) -> tuple[Receptacle, tuple[float, float, float]] | None:
        """A free, reachable place for the centre of `kind`, or None. The place is taken from then on."""
        for _ in range(attempts):
            receptacle = receptacles[self.rng.integers(len(receptacles))]
            if self._count.get(receptacle.name, 0) >= receptacle.capacity:
                continue
            if 2 * kind.half_height > receptacle.headroom - 0.02:
                continue
            spots = _spots(self.layout.id, receptacle.name)
            x, y = spots[self.rng.integers(len(spots))] + self.rng.uniform(-0.01, 0.01, 2)
            radius = kind.footprint_radius + gap
            if any(
                name == receptacle.name and np.hypot(x - ox, y - oy) < radius + other
                for name, ox, oy, other in self._taken
            ):
                continue
            if gap >= TARGET_GAP and receptacle.kind == "open" and not self._stands_near(x, y):
                continue
            self._taken.append((receptacle.name, x, y, kind.footprint_radius))
            self._count[receptacle.name] = self._count.get(receptacle.name, 0) + 1
            x, y = self._shifted(receptacle, float(x), float(y))
            return receptacle, (x, y, receptacle.pos[2] + kind.half_height)
        return None

    def _stands_near(self, x: float, y: float) -> bool:
        """Whether open doors and drawers leave floor from where the place is reached."""
        return len(self.plan.free_cells_near(x, y, 0.45, 0.70)) >= 6

    def _shifted(self, receptacle: Receptacle, x: float, y: float) -> tuple[float, float]:
        """An open drawer carries what lies in it."""
        if receptacle.kind != "drawer":
            return x, y
        opening = self.opening.get(receptacle.link, 0.0)
        return x + opening * np.cos(receptacle.yaw), y + opening * np.sin(receptacle.yaw)

    def placement(self, kind: ObjectKind, pos, receptacle: Receptacle) -> ObjectPlacement:
        """`kind` upright at `pos`, turned at random (square with the drawer's walls in a drawer)."""
        yaw = self.rng.uniform(-np.pi, np.pi)
        if receptacle.kind == "drawer":
            yaw = receptacle.yaw
        quat = (float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2)))
        return ObjectPlacement(kind.name, tuple(float(v) for v in pos), quat)


def is_settled(scene: Scene) -> bool:
    """Whether every object stays where it is put, by half a second of physics with all awake."""
    sim = checker()
    sim.reset(scene)
    start = np.array([sim.object_pos_w(i) for i in range(sim.num_objects)])
    sim.data.qvel[:] = 1e-6  # wakes everything
    hold = np.zeros(7)
    for _ in range(SETTLE_STEPS):
        sim.step(hold, None, (0.0, 0.0))
    moved = np.array([sim.object_pos_w(i) for i in range(sim.num_objects)]) - start
    return bool(np.abs(moved).max() < SETTLE_TOLERANCE)


def noisy_arm(rng: np.random.Generator) -> tuple[float, ...]:
    """HAB's start posture with its noise, within the limits."""
    arm = fetch.ARM_START + rng.normal(0.0, ARM_NOISE, 7)
    return tuple(float(v) for v in np.clip(arm, fetch.ARM_LOWER, fetch.ARM_UPPER))


def start_anywhere(plan: FloorPlan, rng: np.random.Generator) -> tuple[float, float, float]:
    """A random point of the largest island, any heading."""
    x, y = plan.random_free_point(rng)
    return float(x), float(y), float(rng.uniform(-np.pi, np.pi))


def start_near(
    plan: FloorPlan, rng: np.random.Generator, point, radius: float
) -> tuple[float, float, float]:
    """A random free point within `radius` of `point` (seen from above), facing it up to 30 degrees of noise."""
    cells = plan.free_cells_near(point[0], point[1], 0.0, radius)
    x, y = cells[rng.integers(len(cells))]
    yaw = np.arctan2(point[1] - y, point[0] - x) + rng.normal(0.0, YAW_NOISE)
    return float(x), float(y), float(yaw)


def touches_nothing(scene: Scene, held: int | None) -> bool:
    """Whether the robot of `scene`, with object `held` in its gripper, is free of contact."""
    sim = checker()
    sim.reset(scene)
    if held is not None:
        sim.snap_object(held)
    mujoco.mj_collision(sim.model, sim.data)
    return not sim.has_robot_contact()
