"""Contact forces between robot and home: the basis of collision measures and penalties.

Contacts of the robot, or of what it holds, with anything else count. Contacts of the robot with
itself or with the held object, and contacts that do not involve it (an object on a table), do not;
the released Habitat code took the largest contact of the whole simulation (hab-spec 10, item 2).
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

RATCHET = 20.0  # N, dead zone of the accumulation (hab-spec 1.8)
_STATE = (
    "instant", "accum", "added", "_level", "robot_object", "robot_scene", "held_scene",
    "_step_flags",
)  # fmt: skip


class ForceMeter:
    """Largest contact force per control step and its accumulation over an episode."""

    def __init__(self, model: mujoco.MjModel, robot_bodies: list[int]) -> None:
        self._model = model
        is_robot = np.zeros(model.nbody, dtype=bool)
        is_robot[robot_bodies] = True
        self.is_robot_geom = is_robot[model.geom_bodyid]
        """[ngeom] bool."""
        self.is_object_geom = model.geom_group == 2
        """[ngeom] bool."""
        self._wrench = np.zeros(6)
        self.reset()

    def reset(self, level: float = 0.0) -> None:
        """Forces and counts as at the start of an episode.

        Args:
            level: N, force of contacts that there are already, which are not counted as new.
        """
        self.instant = 0.0  # N, largest contact force within the last control step
        self.accum = 0.0  # N
        self.added = 0.0  # N, what the last control step added to `accum`
        self._level = level
        self.robot_object = self.robot_scene = self.held_scene = 0
        self._step_flags = [False, False, False]  # in the order of the counts above

    def state(self) -> dict[str, Any]:
        """The episode's forces and counts so far, by name."""
        return {name: getattr(self, name) for name in _STATE}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        for name in _STATE:
            setattr(self, name, state[name])

    def begin_step(self) -> None:
        """Call before the substeps of a control step."""
        self.instant = self.added = 0.0
        self._step_flags = [False, False, False]

    def measure(self, data: mujoco.MjData, held_geom: int) -> None:
        """Call after each substep. `held_geom` is the held object's geom, -1 for none."""
        count = data.ncon
        if not count:
            return
        pairs = data.contact.geom
        robot = self.is_robot_geom[pairs]  # [ncon, 2]
        touched = robot[:, 0] != robot[:, 1]
        if held_geom >= 0:
            touched |= (pairs == held_geom).any(axis=1)
        if not touched.any():
            return
        for i in np.flatnonzero(touched):
            a, b = int(pairs[i, 0]), int(pairs[i, 1])
            by_robot = bool(robot[i, 0] or robot[i, 1])
            if by_robot and held_geom in (a, b):
                continue
            mujoco.mj_contactForce(self._model, data, i, self._wrench)
            force = abs(float(self._wrench[0]))
            if force <= 0.0:
                continue
            self.instant = max(self.instant, force)
            other = b if robot[i, 0] or a == held_geom else a
            kind = (0 if self.is_object_geom[other] else 1) if by_robot else 2
            self._step_flags[kind] = True

    def include(self, force: float, touched: np.ndarray) -> None:
        """Adds what was measured elsewhere: the largest force, N, and what touched, as below."""
        if force > self.instant:
            self.instant = float(force)
        for kind in range(3):
            if touched[kind]:
                self._step_flags[kind] = True

    def end_step(self) -> None:
        """Call after the substeps: the ratchet that turns forces into an accumulated measure."""
        rise = self.instant - self._level
        if rise > RATCHET:
            self.added = rise
            self.accum += rise
            self._level = self.instant
        elif rise < 0.0:
            self._level = self.instant
        self.robot_object += self._step_flags[0]
        self.robot_scene += self._step_flags[1]
        self.held_scene += self._step_flags[2]
