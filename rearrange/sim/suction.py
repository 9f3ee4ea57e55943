"""The suction gripper: when it grips, what it holds, how it releases, when the hold breaks.

    grip on, nothing held, hand touches an object  -> weld that keeps the pose of that moment
    grip on, nothing held, hand touches a handle   -> ball joint at the point of contact
    grip off                                       -> the constraint is switched off

Suction grips a handle only at the handle, not at any part of its drawer or door, and a hold is
violated when what is held has moved by 0.15 m or more from where it was gripped. The released
Habitat code gripped anywhere on the link and measured from the marker, so a grip far from the
handle was a violation at once (hab-spec 10, item 11).
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import NUM_SLOTS
from rearrange.sim.model import GRIPPER_GEOMS, GROUP_ROBOT, HOUSE, OBJECT, object_body

HOLD_THRESHOLD = 0.15  # m, hab-spec 1.5
TOUCHING = 0.001  # m
_STATE = ("slot", "joint", "_anchor_hand", "_anchor_held", "_released", "_left")


class Suction:
    """Holds at most one object slot or handle. Changes the model's masks and data's constraints."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._gripper = model.body("gripper_link").id
        self._hand_geoms = [model.geom(name).id for name in GRIPPER_GEOMS]
        is_solid = (model.geom_conaffinity & OBJECT > 0) & (model.geom_group == GROUP_ROBOT)
        others = [int(geom) for geom in np.flatnonzero(is_solid) if geom not in self._hand_geoms]
        self._robot_geoms = [*self._hand_geoms, *others]
        bodies = [model.body(object_body(slot)).id for slot in range(NUM_SLOTS)]
        self._object_body = bodies
        self._object_geom = [int(model.body_geomadr[body]) for body in bodies]
        self._slot_of_geom = {geom: slot for slot, geom in enumerate(self._object_geom)}
        self._joint_of_geom = {
            model.geom(f"{joint}_handle").id: joint for joint in fur.MARKER_OF_JOINT
        }
        self._handle_geom = {joint: geom for geom, joint in self._joint_of_geom.items()}
        self._weld = [model.equality(f"hold_{object_body(slot)}").id for slot in range(NUM_SLOTS)]
        self._ball = {joint: model.equality(f"hold_{joint}").id for joint in fur.MARKER_OF_JOINT}
        self._joint_body = {joint: model.body(joint).id for joint in fur.MARKER_OF_JOINT}
        self._is_gripping_geom = np.zeros(model.ngeom, dtype=bool)
        self._is_gripping_geom[self._hand_geoms] = True
        self.slot: int | None = None
        self.joint: str | None = None
        self._anchor_hand = np.zeros(3)  # gripper's frame
        self._anchor_held = np.zeros(3)  # held body's frame
        self._released: tuple[int, ...] = ()  # slots that may still overlap the hand
        self._left: str | None = None  # the same of a handle, by its joint

    def reset(self) -> None:
        """Nothing held. Call before the data are reset."""
        for geom in self._object_geom:
            self._model.geom_contype[geom] = OBJECT
        for geom in self._joint_of_geom:
            self._model.geom_contype[geom] = HOUSE
        self.slot = self.joint = self._left = None
        self._released = ()

    def state(self) -> dict[str, Any]:
        """What is held and how, by name."""
        return {name: getattr(self, name) for name in _STATE}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned; masks and constraints belong to the model and the
        data."""
        for name in _STATE:
            setattr(self, name, state[name])

    @property
    def held_geom(self) -> int:
        """Geom of the held object, -1 for none."""
        return -1 if self.slot is None else self._object_geom[self.slot]

    def update(self, data: mujoco.MjData, grip: float | None) -> None:
        """Applies the grip command (>= 0 on, < 0 off, None as it is) to the present contacts."""
        for slot in self._released:
            self._restore_collisions(data, slot)
        if self._left is not None:
            self._restore_handle(data, self._left)
        if grip is None:
            return
        if grip < 0.0:
            self.release(data)
        elif self.slot is None and self.joint is None:
            self._grip_what_touches(data)

    def _grip_again(self, data: mujoco.MjData) -> bool:
        """Grips a handle that was let go and is still where the hand is: there is no contact."""
        if (joint := self._left) is None:
            return False
        geom, ends = self._handle_geom[joint], np.zeros(6)
        for part in self._hand_geoms:
            if mujoco.mj_geomDistance(self._model, data, part, geom, TOUCHING, ends) < TOUCHING:
                self.hold_handle(data, joint, (ends[:3] + ends[3:]) / 2.0)
                return True
        return False

    def _grip_what_touches(self, data: mujoco.MjData) -> None:
        if not data.ncon and self._left is None:
            return
        pairs = data.contact.geom
        hand = self._is_gripping_geom[pairs]
        touching = np.flatnonzero(hand[:, 0] | hand[:, 1])
        handle = None
        for i in touching:
            other = int(pairs[i, 1] if hand[i, 0] else pairs[i, 0])
            if other in self._slot_of_geom:  # objects before handles, as HAB
                self.hold_object(data, self._slot_of_geom[other])
                return
            if other in self._joint_of_geom:
                handle = (self._joint_of_geom[other], data.contact.pos[i].copy())
        if not self._grip_again(data) and handle is not None:
            self.hold_handle(data, *handle)

    def hold_object(self, data: mujoco.MjData, slot: int) -> None:
        """Welds an object to the gripper in the pose it has now."""
        body = self._object_body[slot]
        position, rotation = data.xpos[self._gripper], data.xmat[self._gripper].reshape(3, 3)
        inverse, relative = np.empty(4), np.empty(4)
        mujoco.mju_negQuat(inverse, data.xquat[self._gripper])
        mujoco.mju_mulQuat(relative, inverse, data.xquat[body])
        offset = rotation.T @ (data.xpos[body] - position)
        row = self._model.eq_data[self._weld[slot]]
        row[0:3], row[3:6], row[6:10], row[10] = 0.0, offset, relative, 1.0
        data.eq_active[self._weld[slot]] = 1
        self.slot = slot
        self._anchor_hand, self._anchor_held = offset, np.zeros(3)
        # What is held passes through the robot, as in HAB, and still collides with the home
        # and other objects.
        self._released = tuple(other for other in self._released if other != slot)
        self._model.geom_contype[self._object_geom[slot]] = 0

    def hold_handle(self, data: mujoco.MjData, joint: str, point: np.ndarray) -> None:
        """Ties a handle to the gripper at a point of the world, [3] m, about which it may turn."""
        body = self._joint_body[joint]
        in_hand = data.xmat[self._gripper].reshape(3, 3).T @ (point - data.xpos[self._gripper])
        in_handle = data.xmat[body].reshape(3, 3).T @ (point - data.xpos[body])
        row = self._model.eq_data[self._ball[joint]]
        row[0:3], row[3:6] = in_hand, in_handle
        data.eq_active[self._ball[joint]] = 1
        self.joint = joint
        self._anchor_hand, self._anchor_held = in_hand, in_handle
        # The ball joint carries the force; contact of hand and handle would fight it as the hand
        # pivots.
        if self._left is not None:
            self._model.geom_contype[self._handle_geom[self._left]] = HOUSE
            self._left = None
        self._model.geom_contype[self._handle_geom[joint]] = 0

    def release(self, data: mujoco.MjData) -> None:
        """Lets go. What was held collides with the robot again once it is clear of it."""
        if self.slot is not None:
            data.eq_active[self._weld[self.slot]] = 0
            self._wake(data, self._object_body[self.slot])
            self._released = (*self._released, self.slot)
            self.slot = None
        if self.joint is not None:
            data.eq_active[self._ball[self.joint]] = 0
            self._wake(data, self._joint_body[self.joint])
            self._left, self.joint = self.joint, None
            self._restore_handle(data, self._left)

    def _wake(self, data: mujoco.MjData, body: int) -> None:
        """Restarts the sleep timer: what hung motionless in the hand must not fall asleep in the
        air."""
        tree = self._model.body_treeid[body]
        if data.tree_asleep[tree] < 0:
            data.tree_asleep[tree] = -(1 + mujoco.mjMINAWAKE)

    def _restore_collisions(self, data: mujoco.MjData, slot: int) -> None:
        """A contact deep in the palm would fling it, and count as a force of the robot's."""
        geom = self._object_geom[slot]
        if self._is_clear(data, geom):
            self._model.geom_contype[geom] = OBJECT
            self._released = tuple(other for other in self._released if other != slot)

    def _restore_handle(self, data: mujoco.MjData, joint: str) -> None:
        """The hand has pivoted into it: at once, a contact 3 cm deep would throw both apart."""
        geom = self._handle_geom[joint]
        if self._is_clear(data, geom):
            self._model.geom_contype[geom] = HOUSE
            self._left = None

    def _is_clear(self, data: mujoco.MjData, geom: int) -> bool:
        """Whether it no longer overlaps any of the robot's parts."""
        return all(
            mujoco.mj_geomDistance(self._model, data, part, geom, 0.05, None) > TOUCHING
            for part in self._robot_geoms
        )

    def stretch(self, data: mujoco.MjData) -> float:
        """How far what is held has moved from where it was gripped, m (0 when nothing is held)."""
        if self.slot is not None:
            body = self._object_body[self.slot]
        elif self.joint is not None:
            body = self._joint_body[self.joint]
        else:
            return 0.0
        hand = data.xpos[self._gripper] + data.xmat[self._gripper].reshape(3, 3) @ self._anchor_hand
        held = data.xpos[body] + data.xmat[body].reshape(3, 3) @ self._anchor_held
        return float(np.linalg.norm(hand - held))

    def is_violated(self, data: mujoco.MjData) -> bool:
        """Whether the hold is broken: stretch of at least `HOLD_THRESHOLD`."""
        return self.stretch(data) >= HOLD_THRESHOLD
