"""Collision checks of an arm posture with the house, the robot itself and the floor.

The arm, from the shoulder to the nozzle, and what the hand holds are spheres fixed to links; the
house is boxes, cylinders, spheres and capsules in the base frame; the robot's own body is boxes and
a cylinder. Distances sphere - primitive are exact, so a clearance errs only by how far the spheres
stick out of the links: at most 1 cm.

K: obstacles, S: spheres of the arm, H: spheres of the held object.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from rearrange.sim.robot import fetch
from rearrange.skills.motion.arm_kernel import between, farthest_turn, frames_of

BOX, CYLINDER, SPHERE, CAPSULE = 0, 1, 2, 3
_KIND_OF_GEOM = {6: BOX, 5: CYLINDER, 2: SPHERE, 3: CAPSULE}  # mujoco.mjtGeom
_SHOULDER_B = np.array([0.15, 0.0, 0.94])  # m, the shoulder_lift joint
NO_SPHERES = np.empty((0, 4))
_GRIPPER_FRAME, _EE_FRAME = 7, 8  # of kinematics.link_frames
_ELBOW, _WRIST = 3, 5  # frames
# Looks along a segment: first after _FIRST_STEP, at latest every _MAX_STEP (rad, fastest joint).
_FIRST_STEP, _MAX_STEP = 0.02, 0.15
_SLACK = 0.002  # m by which a margin may be missed between two looks


@dataclass(frozen=True)
class Obstacles:
    """Primitives in one frame; sizes as MuJoCo has them (half sizes; radius, half length)."""

    kind: np.ndarray  # [K] BOX, CYLINDER, SPHERE or CAPSULE
    pos: np.ndarray  # [K, 3] m
    rot: np.ndarray  # [K, 3, 3]
    size: np.ndarray  # [K, 3] m

    def __len__(self) -> int:
        return len(self.kind)

    def in_base(self, base_pose: tuple[float, float, float]) -> Obstacles:
        """The same obstacles seen from a base at (x, y, yaw) in the present frame."""
        x, y, yaw = base_pose
        cos, sin = np.cos(yaw), np.sin(yaw)
        turn = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
        return Obstacles(self.kind, (self.pos - (x, y, 0.0)) @ turn.T, turn @ self.rot, self.size)


NO_OBSTACLES = Obstacles(
    np.empty(0, np.int64), np.empty((0, 3)), np.empty((0, 3, 3)), np.empty((0, 3))
)


def obstacles_from_sim(
    model: Any,  # mujoco.MjModel
    data: Any,  # mujoco.MjData with current geom poses
    base_pose: tuple[float, float, float],  # x, y (m), yaw (rad) in the world
    exclude_geoms: tuple[int, ...] | np.ndarray = (),
    reach: float = 1.6,  # m from the shoulder
) -> Obstacles:
    """What the arm of a base at `base_pose` can touch: geoms of groups 0 to 2, base frame."""
    wanted = model.geom_group <= 2
    wanted[np.asarray(exclude_geoms, dtype=np.int64)] = False
    x, y, yaw = base_pose
    cos, sin = np.cos(yaw), np.sin(yaw)
    shoulder = np.array([x + cos * _SHOULDER_B[0], y + sin * _SHOULDER_B[0], _SHOULDER_B[2]])
    near = ((data.geom_xpos - shoulder) ** 2).sum(axis=1) < (reach + model.geom_rbound) ** 2
    ids = np.flatnonzero(wanted & near)
    kinds = np.array(
        [_KIND_OF_GEOM.get(int(kind), -1) for kind in model.geom_type[ids]], dtype=np.int64
    )
    ids, kinds = ids[kinds >= 0], kinds[kinds >= 0]
    world = Obstacles(
        kinds,
        data.geom_xpos[ids].astype(np.float64),
        data.geom_xmat[ids].reshape(-1, 3, 3).astype(np.float64),
        model.geom_size[ids].astype(np.float64),
    )
    local = world.in_base(base_pose)
    # A wall's bounding sphere is far larger than the wall: look again at the true distance.
    close = _primitive_distances(_SHOULDER_B, local.kind, local.pos, local.rot, local.size) < reach
    return Obstacles(local.kind[close], local.pos[close], local.rot[close], local.size[close])


def held_spheres(
    shape: str,  # "box", "cylinder" or "sphere"
    size: tuple[float, ...] | np.ndarray,  # as MuJoCo's geom size
    pos_e: np.ndarray,  # [3] centre in the ee frame
    rot_e: np.ndarray | None = None,  # [3, 3] axes in the ee frame
) -> np.ndarray:
    """Spheres [H, 4] (x, y, z, radius in the ee frame) that stand for a held object.

    They stick out of its faces by at most 15% of its smallest half size, and leave its sharp
    corners bare.
    """
    if shape == "sphere":
        return np.array([[*pos_e, float(size[0])]])
    grid, radius = _grid_inside(shape, tuple(map(float, size)))
    centres = (grid if rot_e is None else grid @ np.asarray(rot_e).T) + np.asarray(pos_e)
    return np.concatenate([centres, np.full((len(centres), 1), radius)], axis=1)


@cache
def _grid_inside(shape: str, size: tuple[float, ...]) -> tuple[np.ndarray, float]:
    """Centres [H, 3] of equal spheres in a box or cylinder, in its own axes, and their radius."""
    if shape not in ("box", "cylinder"):
        raise ValueError(f"a held object is a box, a cylinder or a sphere, got {shape!r}")
    half = np.array([size[0], size[0], size[1]] if shape == "cylinder" else size[:3])
    cell = max(float(half.min()), 0.02)  # thinner things get spheres thicker than themselves
    counts = np.maximum(1, np.ceil(half / cell - 1e-6).astype(int))
    reach = float((half / counts).max())
    sides = zip(counts, half, strict=True)
    axes = [np.linspace(reach - h, h - reach, n) if n > 1 else np.zeros(1) for n, h in sides]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    radius = 1.15 * reach
    if shape == "cylinder":  # the square's corners are not there
        away = np.hypot(grid[:, 0], grid[:, 1])
        grid = grid[away + 0.7 * radius <= half[0] + 1e-9 + 0.3 * radius]
        if not len(grid):
            grid = np.stack([np.zeros_like(axes[2]), np.zeros_like(axes[2]), axes[2]], axis=1)
    grid.setflags(write=False)
    return grid, radius


def min_clearance(
    q: np.ndarray, obstacles: Obstacles = NO_OBSTACLES, held: np.ndarray | None = None
) -> float:
    """Smallest distance (m) of arm and held object [H, 4] to house, floor and the robot's own body.

    Negative: how deep they overlap. More than half a metre is not told apart.
    """
    return float(_clearance(np.asarray(q, dtype=np.float64), *packed(obstacles, held), -np.inf))


def is_free(
    q: np.ndarray,
    obstacles: Obstacles = NO_OBSTACLES,
    held: np.ndarray | None = None,
    margin: float = 0.01,
) -> bool:
    """Whether a posture keeps `margin` (m) from everything and lies within the joint limits."""
    q = np.asarray(q, dtype=np.float64)
    if (q < fetch.ARM_LOWER - 1e-6).any() or (q > fetch.ARM_UPPER + 1e-6).any():
        return False
    return bool(_clearance(q, *packed(obstacles, held), margin) >= margin)


def segment_free(
    q0: np.ndarray,
    q1: np.ndarray,
    obstacles: Obstacles = NO_OBSTACLES,
    held: np.ndarray | None = None,
    margin: float = 0.01,
) -> bool:
    """Whether the straight motion between two postures keeps `margin`, to within 2 mm."""
    return bool(
        _segment_free(
            np.asarray(q0, dtype=np.float64), np.asarray(q1, dtype=np.float64),
            *packed(obstacles, held),
            float(margin),
        )
    )  # fmt: skip


def place_free(
    base_pose: tuple[float, float, float],
    q: np.ndarray,
    obstacles: Obstacles,
    held: np.ndarray | None = None,
    margin: float = 0.01,
) -> bool:
    """Whether body and arm fit at a base pose; obstacles in the frame of that pose."""
    local = obstacles.in_base(base_pose)
    body = _spheres_clearance(_BODY_SPHERES, local.kind, local.pos, local.rot, local.size, margin)
    return bool(body >= margin) and is_free(q, local, held, margin)


def arm_spheres(q: np.ndarray, held: np.ndarray | None = None) -> np.ndarray:
    """The spheres [S + H, 4] (x, y, z, radius; base frame) of arm and held object in a posture."""
    return _place_spheres(np.asarray(q, dtype=np.float64), packed(NO_OBSTACLES, held)[-1])


def packed(
    obstacles: Obstacles, held: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The arguments that the kernels of this module and of `motion` take, in their order."""
    spheres = (
        NO_SPHERES if held is None else np.ascontiguousarray(held, dtype=np.float64).reshape(-1, 4)
    )
    return (
        obstacles.kind, np.ascontiguousarray(obstacles.pos), np.ascontiguousarray(obstacles.rot),
        np.ascontiguousarray(obstacles.size), spheres,
    )  # fmt: skip


# --- the robot's shape ---------------------------------------------------------------------------


def _arm_spheres() -> tuple[np.ndarray, np.ndarray]:
    """Frame [S] and x, y, z, radius [S, 4] of spheres over `fetch.ARM_CAPSULES`, palm, nozzle."""
    names = [joint.name for joint in fetch.ARM_JOINTS]
    frames, spheres = [], []
    for name, begin, end, radius in fetch.ARM_CAPSULES:
        begin, end = np.array(begin), np.array(end)
        num = int(np.ceil(np.linalg.norm(end - begin) / 0.05))
        gap = np.linalg.norm(end - begin) / num
        for i in range(num + 1):
            frames.append(names.index(name))
            # Large enough to cover the capsule halfway to the next sphere.
            spheres.append([*(begin + (end - begin) * i / num), np.hypot(radius, gap / 2)])
    half, centre = np.array(fetch.PALM_HALF), np.array(fetch.PALM_POS)
    for x in (-0.45, 0.45):
        for y in (-0.58, 0.0, 0.58):
            frames.append(_GRIPPER_FRAME)
            spheres.append([centre[0] + x * half[0], centre[1] + y * half[1], 0.0, 1.2 * half[2]])
    radius = fetch.NOZZLE_RADIUS
    for x in np.linspace(fetch.NOZZLE_FROM, fetch.EE_OFFSET[0] - radius, 3):
        frames.append(_GRIPPER_FRAME)
        spheres.append([x, 0.0, 0.0, radius])
    return np.array(frames), np.array(spheres)


def _body_spheres() -> np.ndarray:
    """x, y, z, radius [n, 4] over base cylinder and torso, base frame, by at most 3 cm more."""
    spheres = []
    for z in (0.12, 0.27):
        for angle in np.arange(8) * np.pi / 4:
            spheres.append([0.16 * np.cos(angle), 0.16 * np.sin(angle), z, 0.13])
        spheres.append([0.0, 0.0, z, 0.13])
    for z in np.arange(0.42, 1.2, 0.12):
        spheres += [
            [-0.12, 0.07, z, 0.11],
            [-0.12, -0.07, z, 0.11],
            [-0.03, 0.07, z, 0.11],
            [-0.03, -0.07, z, 0.11],
        ]
    return np.array(spheres)


_FRAME_OF_SPHERE, _ARM_SPHERES = _arm_spheres()
_BODY_SPHERES = _body_spheres()
# The shoulder's links touch the torso all the time: only what follows the elbow can hit the body.
_FIRST_DISTAL = int(np.argmax(_FRAME_OF_SPHERE >= _ELBOW))
_FIRST_HAND = int(np.argmax(_FRAME_OF_SPHERE >= _WRIST))
_BODY_KIND = np.array([{"box": BOX, "cylinder": CYLINDER}[geom[1]] for geom in fetch.BASE_GEOMS])
_BODY_SIZE = np.array([geom[2] for geom in fetch.BASE_GEOMS])
_BODY_POS = np.array([geom[3] for geom in fetch.BASE_GEOMS])
_BODY_ROT = np.stack([np.eye(3)] * len(_BODY_KIND))


# --- kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _primitive_distance(px, py, pz, kind, pos, rot, size):
    """Signed distance of a point to a primitive's surface; inside one: to the nearest face."""
    dx, dy, dz = px - pos[0], py - pos[1], pz - pos[2]
    if kind == SPHERE:
        return np.sqrt(dx * dx + dy * dy + dz * dz) - size[0]
    z = rot[0, 2] * dx + rot[1, 2] * dy + rot[2, 2] * dz
    if kind == BOX:
        ex = abs(rot[0, 0] * dx + rot[1, 0] * dy + rot[2, 0] * dz) - size[0]
        ey = abs(rot[0, 1] * dx + rot[1, 1] * dy + rot[2, 1] * dz) - size[1]
        ez = abs(z) - size[2]
        inside = min(max(ex, ey, ez), 0.0)
        ex, ey, ez = max(ex, 0.0), max(ey, 0.0), max(ez, 0.0)
        return np.sqrt(ex * ex + ey * ey + ez * ez) + inside
    across = np.sqrt(max(dx * dx + dy * dy + dz * dz - z * z, 0.0))
    if kind == CAPSULE:
        ez = max(abs(z) - size[1], 0.0)
        return np.sqrt(across * across + ez * ez) - size[0]
    er, ez = across - size[0], abs(z) - size[1]
    inside = min(max(er, ez), 0.0)
    er, ez = max(er, 0.0), max(ez, 0.0)
    return np.sqrt(er * er + ez * ez) + inside


@njit(cache=True, nogil=True)
def _primitive_distances(point, kind, pos, rot, size):
    distances = np.empty(len(kind))
    for k in range(len(kind)):
        distances[k] = _primitive_distance(
            point[0], point[1], point[2], kind[k], pos[k], rot[k], size[k]
        )
    return distances


@njit(cache=True, nogil=True)
def _spheres_clearance(spheres, kind, pos, rot, size, enough):
    """Smallest distance of spheres [n, 4] to primitives; stops once it is below `enough`."""
    best = 0.5
    for s in range(len(spheres)):
        px, py, pz, radius = spheres[s, 0], spheres[s, 1], spheres[s, 2], spheres[s, 3]
        for k in range(len(kind)):
            # The sphere around the primitive first: most are far away.
            dx, dy, dz = px - pos[k, 0], py - pos[k, 1], pz - pos[k, 2]
            if kind[k] == BOX:
                bound = size[k, 0] + size[k, 1] + size[k, 2]
            elif kind[k] == SPHERE:
                bound = size[k, 0]
            else:
                bound = size[k, 0] + size[k, 1]
            limit = bound + radius + best
            if limit <= 0.0 or dx * dx + dy * dy + dz * dz >= limit * limit:
                continue
            distance = _primitive_distance(px, py, pz, kind[k], pos[k], rot[k], size[k]) - radius
            if distance < best:
                best = distance
                if best < enough:
                    return best
    return best


@njit(cache=True, nogil=True)
def _place_spheres(q, held):
    """Spheres of arm, then held object, in the base frame: [S + H, 4]."""
    position, rotation = frames_of(q)
    num = len(_ARM_SPHERES)
    placed = np.empty((num + len(held), 4))
    for s in range(len(placed)):
        frame = _FRAME_OF_SPHERE[s] if s < num else _EE_FRAME
        source = _ARM_SPHERES[s] if s < num else held[s - num]
        for r in range(3):
            placed[s, r] = (
                position[frame, r]
                + rotation[frame, r, 0] * source[0]
                + rotation[frame, r, 1] * source[1]
                + rotation[frame, r, 2] * source[2]
            )
        placed[s, 3] = source[3]
    return placed


@njit(cache=True, nogil=True)
def _clearance(q, kind, pos, rot, size, held, enough):
    """Smallest distance to house, body, floor, of hand to upper arm; any below `enough`."""
    return _placed_clearance(_place_spheres(q, held), kind, pos, rot, size, enough)


@njit(cache=True, nogil=True)
def _placed_clearance(spheres, kind, pos, rot, size, enough):
    best = 0.5
    for s in range(_FIRST_DISTAL, len(spheres)):
        best = min(best, spheres[s, 2] - spheres[s, 3])  # the floor
        if s >= _FIRST_HAND:
            for other in range(_FIRST_DISTAL):
                dx = spheres[s, 0] - spheres[other, 0]
                dy = spheres[s, 1] - spheres[other, 1]
                dz = spheres[s, 2] - spheres[other, 2]
                gap = np.sqrt(dx * dx + dy * dy + dz * dz) - spheres[s, 3] - spheres[other, 3]
                best = min(best, gap)
    if best < enough:
        return best
    distal = spheres[_FIRST_DISTAL:]
    best = min(
        best, _spheres_clearance(distal, _BODY_KIND, _BODY_POS, _BODY_ROT, _BODY_SIZE, enough)
    )
    if best < enough:
        return best
    return min(best, _spheres_clearance(spheres, kind, pos, rot, size, enough))


@njit(cache=True, nogil=True)
def _segment_free(q0, q1, kind, pos, rot, size, held, margin):
    """March along: no look is needed before the fastest sphere has used up the clearance."""
    span = farthest_turn(q1, q0)
    # Ends and middle first: a blocked segment is found out early.
    before = _place_spheres(q0, held)
    clearance = _placed_clearance(before, kind, pos, rot, size, margin)
    if clearance < margin:
        return False
    for look in (1.0, 0.5):
        if _clearance(between(q0, q1, look), kind, pos, rot, size, held, margin) < margin:
            return False
    if span < 1e-9:
        return True
    t, dt = 0.0, min(1.0, _FIRST_STEP / span)
    while t < 1.0:
        dt = min(dt, 1.0 - t)
        t += dt
        spheres = _place_spheres(between(q0, q1, t), held)
        clearance = _placed_clearance(spheres, kind, pos, rot, size, margin)
        if clearance < margin:
            return False
        fastest = 0.0
        for s in range(len(spheres)):
            dx = spheres[s, 0] - before[s, 0]
            dy = spheres[s, 1] - before[s, 1]
            dz = spheres[s, 2] - before[s, 2]
            fastest = max(fastest, dx * dx + dy * dy + dz * dz)
        before = spheres
        # Speeds change little within _MAX_STEP: 20% more than the last one covers that.
        speed = 1.2 * np.sqrt(fastest) / dt + 1e-6
        dt = min(max(clearance - margin, 2.0 * _SLACK) / speed, _MAX_STEP / span)
    return True
