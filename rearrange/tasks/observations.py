"""All observations except images: names, shapes, frames, units.

    name                        size  content
    joint                       7     arm angles, rad
    ee_pos                      3     end effector in the base frame, m
    is_holding                  1     1 while an object or a handle is held
    relative_resting_position   3     resting point minus end effector, base frame, m
    obj_start_sensor            3N    targets' INITIAL positions in the end effector's frame, m
    obj_goal_sensor             3N    goals in the end effector's frame, m
    obj_start_gps_compass       2N    (rho, -phi) of the initial positions: m, rad, base frame
    obj_goal_gps_compass        2N    the same of the goals
    goal_to_agent_gps_compass   2     the same of Navigate's goal
    marker_rel_pos              3M    handles in the end effector's frame, m
    marker_js                   2M    their joints: position and velocity (m, m/s or rad, rad/s)

N targets and M handles of the task. Names and meanings are Habitat-lab's (hab-spec 3.2, 4.2). The
handle sensors were dropped after its release 0.2.2: HAB's tasks have them only with
`handle_sensors=True`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from gymnasium.spaces import Box, Dict, Space
from numba import njit

from rearrange.errors import UserError, nearest
from rearrange.sim.home.furniture import MARKERS
from rearrange.sim.native.addresses import Table, address_of, float_rows, floats, int_rows
from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.tasks.floor_way import FLOOR_WAY, GOAL, START, goal_sensor
from rearrange.tasks.floor_way import SPACE as FLOOR_WAY_SPACE
from rearrange.tasks.ranges import RangeSensors
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.home import HOME_MARKERS
from rearrange.tasks.rules.task import Task

# Places in the kernel's table, int64: indices and sizes, addresses of arrays, and what changes.
_X, _Y, _YAW, _ARM, _EE, _NQ, _NV, _NSITE, _TARGETS, _MARKERS, _QPOS, _QVEL, _SITES = range(13)
_AXES, _STARTS, _GOALS, _NAV_GOAL, _HANDLES, _REST, _IS_HOLDING, _TABLE_SIZE = range(13, 21)
BOUND = 100.0  # m, rad: no home is larger, and a heading turns no further within an episode


def sensor_sizes(num_targets: int, num_markers: int) -> dict[str, int]:
    """Sizes of all sensors, in the order in which the kernel writes them."""
    n, m = num_targets, num_markers
    return {
        "joint": 7, "ee_pos": 3, "is_holding": 1, "relative_resting_position": 3,
        "obj_start_sensor": 3 * n, "obj_goal_sensor": 3 * n, "obj_start_gps_compass": 2 * n,
        "obj_goal_gps_compass": 2 * n, "goal_to_agent_gps_compass": 2, "marker_rel_pos": 3 * m,
        "marker_js": 2 * m,
    }  # fmt: skip


class Sensors:
    """Reads a task's low-dimensional observations. All are computed; the task's are returned.

    Raises UserError for a task with an unknown sensor.
    """

    def __init__(self, task: Task, with_handles: bool = False) -> None:
        self._task = task
        names = task.sensors + (task.handle_sensors if with_handles else ())
        sizes = sensor_sizes(task.num_targets, task.num_markers)
        for name in names:
            if name not in sizes:
                known = nearest(name, list(sizes))
                raise UserError(f"task '{task.name}' has an unknown sensor '{name}': {known}")
            if sizes[name] == 0:
                raise UserError(
                    f"task '{task.name}' has the sensor '{name}' of a handle, but num_markers=0: "
                    "give 1 (the episode's own) or 2 (those of the home's tasks)"
                )
        ends = np.cumsum(list(sizes.values())).tolist()
        self._size = ends[-1]
        slices = {
            name: slice(end - size, end)
            for (name, size), end in zip(sizes.items(), ends, strict=True)
        }
        self._slices = [(name, slices[name]) for name in names]
        self._sizes = {name: sizes[name] for name in names}
        self._starts = np.zeros((task.num_targets, 3))
        self._goals = np.zeros((task.num_targets, 3))
        self._nav_goal = np.zeros(3)
        self._handles = np.zeros((task.num_markers, 3), np.int32)  # site, place in qpos, in qvel
        self._flat = np.empty(self._size, np.float32)
        self._table = Table(_TABLE_SIZE)

    def spaces(self) -> dict[str, Box]:
        """The space of each sensor."""
        return {
            name: Box(0.0, 1.0, (size,), np.float32)
            if name == "is_holding"
            else Box(-BOUND, BOUND, (size,), np.float32)
            for name, size in self._sizes.items()
        }

    def start(self, episode: EpisodeSpec) -> None:
        """Sets the objects' starts and goals of a new episode."""
        target = episode.targets[episode.target_index]
        targets = episode.targets if self._task.num_targets > 1 else (target,)
        for row, one in enumerate(targets):
            self._starts[row], self._goals[row] = one.start, one.goal
        self._nav_goal[:] = target.goal if episode.start_holding else target.start
        self._markers = {0: (), 1: (episode.marker,)}.get(self._task.num_markers, HOME_MARKERS)
        self._table.owner = None

    def goal(self) -> np.ndarray:
        """Where the goal of a task with one goal is in this episode, [3] m, world."""
        name = goal_sensor(self._task.sensors)
        return {START: self._starts, GOAL: self._goals}.get(name or "", self._nav_goal[None])[0]

    def read(
        self, sim: Simulation, out: dict[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """The current observations, in new arrays or in those of `out`, which is returned."""
        if sim.data is not self._table.owner:
            self._look_at(sim)
        flat = self._flat if out is not None else np.empty(self._size, np.float32)
        self._table.values[_IS_HOLDING] = sim.is_holding
        _fill(self._table.values, flat)
        if out is None:
            return {name: flat[part] for name, part in self._slices}
        for name, part in self._slices:
            out[name][:] = flat[part]
        return out

    def _look_at(self, sim: Simulation) -> None:
        """The table of an episode, or of other data."""
        data, model = sim.data, sim.model
        for row, marker in enumerate(self._markers):
            joint = model.joint(MARKERS[marker])  # pyrefly: ignore[bad-index]: a task with one has one
            site = model.site(f"{joint.name}_marker").id
            self._handles[row] = site, joint.qposadr[0], joint.dofadr[0]
        names = "base_x", "base_y", "base_yaw", fetch.ARM_JOINTS[0].name
        arrays = (
            data.qpos, data.qvel, data.site_xpos, data.site_xmat, self._starts, self._goals,
            self._nav_goal, self._handles, fetch.EE_REST_B,
        )  # fmt: skip
        self._table.values[:_IS_HOLDING] = (
            *(model.joint(name).qposadr[0] for name in names), model.site("ee").id,
            len(data.qpos), len(data.qvel),
            len(data.site_xpos), len(self._starts), len(self._handles), *map(address_of, arrays),
        )  # fmt: skip
        self._table.owner = data


def observation_space(
    sensors: Sensors,
    camera_size: int | None,
    ranges: RangeSensors | None,
    has_way: bool,
    colours: Mapping[str, Space],
) -> Dict:
    """The space of observations; without `head_depth` for `camera_size` None."""
    spaces: dict[str, Space] = {**sensors.spaces()}
    if camera_size is not None:
        spaces["head_depth"] = Box(0.0, 1.0, (camera_size, camera_size, 1), np.float32)
    if ranges is not None:
        spaces |= ranges.spaces()
    if has_way:
        spaces[FLOOR_WAY] = FLOOR_WAY_SPACE
    return Dict({**spaces, **colours})


# They run for less time than it takes to let go of the interpreter's lock and to get it back.


@njit(cache=True)
def _in_ee(out, at, point, ee_pos, ee_rot):
    for i in range(3):
        out[at + i] = (
            ee_rot[0, i] * (point[0] - ee_pos[0])
            + ee_rot[1, i] * (point[1] - ee_pos[1])
            + ee_rot[2, i] * (point[2] - ee_pos[2])
        )
    return at + 3


@njit(cache=True)
def _compass(out, at, point, base, cos, sin):
    dx, dy = point[0] - base[0], point[1] - base[1]
    out[at] = math.sqrt(dx * dx + dy * dy)
    out[at + 1] = -math.atan2(cos * dy - sin * dx, cos * dx + sin * dy)
    return at + 2


@njit(cache=True)
def _fill(table, out):
    """Writes all sensors into `out` (float32), in the order of `sensor_sizes`."""
    qpos, qvel = floats(table[_QPOS], table[_NQ]), floats(table[_QVEL], table[_NV])
    sites = float_rows(table[_SITES], table[_NSITE], 3)
    axes = float_rows(table[_AXES] + 72 * table[_EE], 3, 3)
    count, ee_pos = table[_TARGETS], sites[table[_EE]]
    starts, goals = float_rows(table[_STARTS], count, 3), float_rows(table[_GOALS], count, 3)
    base = (qpos[table[_X]], qpos[table[_Y]], qpos[table[_YAW]])
    cos, sin = math.cos(base[2]), math.sin(base[2])
    for i in range(7):  # one by one: `out[0:7] = arm` takes numba five seconds to compile
        out[i] = qpos[table[_ARM] + i]
    dx, dy = ee_pos[0] - base[0], ee_pos[1] - base[1]
    ee = (cos * dx + sin * dy, cos * dy - sin * dx, ee_pos[2])
    rest = floats(table[_REST], 3)
    out[10] = 1.0 if table[_IS_HOLDING] else 0.0
    for i in range(3):
        out[7 + i] = ee[i]
        out[11 + i] = rest[i] - ee[i]
    at = 11 + len(rest)  # not 14: numba would compile what follows again for a constant
    for points in (starts, goals):
        for row in range(count):
            at = _in_ee(out, at, points[row], ee_pos, axes)
    for points in (starts, goals):
        for row in range(count):
            at = _compass(out, at, points[row], base, cos, sin)
    at = _compass(out, at, floats(table[_NAV_GOAL], 3), base, cos, sin)
    markers = int_rows(table[_HANDLES], table[_MARKERS], 3)
    for row in range(table[_MARKERS]):
        at = _in_ee(out, at, sites[markers[row, 0]], ee_pos, axes)
    for row in range(table[_MARKERS]):
        out[at], out[at + 1] = qpos[markers[row, 1]], qvel[markers[row, 2]]
        at += 2
