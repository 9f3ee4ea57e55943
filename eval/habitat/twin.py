"""Our home in the state that Habitat's is in, so that programs of ours act there.

    Habitat's physics --places--> the twin's world --state--> program --[11]--> Habitat's physics

Oracle and chains read our simulator's state: poses, joints, what is held, distances. The twin has
that state and never steps: after each control step of Habitat's all that moves is put where it is
there.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from rearrange.eval.habitat.agreement import joint_positions
from rearrange.eval.habitat.client import HabitatEnv
from rearrange.eval.habitat.lab.conversion import held_back
from rearrange.habitat.axes import from_habitat
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import NUM_SLOTS
from rearrange.sim.model import object_body
from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.sim.suction import Suction
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.episodes.schema import object_handles


class TwinEnv(RearrangeEnv):
    """A task of ours whose physics, pictures, success and end are habitat-lab's.

    Sensors other than `head_depth`, rewards and stages are of the twin's state, by our rules.

    Args:
        there: the environment of the same task, split and seed; closed together with this one.
        depth: whether observations have its `head_depth`.
        options: of `RearrangeEnv`.
    """

    def __init__(self, there: HabitatEnv, *, depth: bool = True, **options: Any) -> None:
        super().__init__(depth=False, **options)
        self.there, self._sees = there, depth
        self._twin = Twin(self.sim)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Starts the episode of options["index"] in both."""
        assert options is not None and seed is None
        self.there.reset(options["index"])
        _, info = super().reset(options=options)
        self.sim.drop()  # a hold of ours is where our world had the object, not where it is there
        self._twin.follow(self.there.places())
        return self.observe().copy(), info

    def step(
        self, action: np.ndarray
    ) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """One control step there, with an action of the full space, [11]."""
        sim, command, previous = self.sim, self.actions.read(action), self._current
        limits = (fetch.ARM_LOWER, fetch.ARM_UPPER)
        sent = held_back(action, sim.arm_target, sim.arm_qpos, sim.motor_lead, limits)
        _, facts = self.there.step(sent)
        self._twin.follow(self.there.places())
        self.is_success = bool(facts["success"])
        outcome = self.task.step(sim, command.stop)
        self._num_steps = int(facts["steps"])
        is_stop = command.stop and self.task.rules.is_stop_used
        info = self._info(self.is_success, facts["failure"], is_stop)
        info["force_accum"] = facts["force"]
        current, is_over = self.observe(), bool(facts["is_over"])
        is_cut_off = is_over and facts["failure"] == "time_limit"
        seen = previous if self.observation_delay else current
        return seen, outcome.reward, is_over and not is_cut_off, is_cut_off, info

    def observe(
        self, out: dict[str, np.ndarray] | None = None, pictures: list[int] | None = None
    ) -> dict[str, np.ndarray]:
        """The current observation, in new arrays."""
        observation = super().observe()
        if self._sees:
            observation["head_depth"] = self.there.current_observation["head_depth"]
        return observation

    def close(self) -> None:
        """Ends the process there. May be called again."""
        super().close()
        self.there.close()


class Twin:
    """Puts places of Habitat's, see `StockEnv.places`, into a simulation of the same scene."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        joint = sim.model.joint
        self._base = [int(joint(name).qposadr[0]) for name in ("base_x", "base_y", "base_yaw")]
        self._arm = [int(joint(one.name).qposadr[0]) for one in fetch.ARM_JOINTS]
        self._joints = {name: int(joint(name).qposadr[0]) for name in fur.ARTICULATED_JOINTS}
        self._objects = [int(joint(object_body(slot)).qposadr[0]) for slot in range(NUM_SLOTS)]
        suction = sim.stateful_parts()["suction"]
        assert isinstance(suction, Suction)
        self._suction = suction

    def follow(self, places: dict[str, Any]) -> None:
        """Brings the world into the state of these places; nothing moves in it."""
        sim = self._sim
        data, poses, ties = sim.data, sim.data.qpos.copy(), sim.data.eq_active.copy()
        mujoco.mj_resetData(sim.model, data)  # wakes all, so that the poses below count
        data.qpos[:], data.eq_active[:] = poses, ties
        x, y, _ = from_habitat(places["base"])
        data.qpos[self._base] = x, y, places["yaw"]
        data.qpos[self._arm] = places["arm"]
        sim.arm_target = np.array(places["arm_target"])
        for name, value in joint_positions(places["joints"]).items():
            data.qpos[self._joints[name]] = value
        handles = self._handles()
        for slot, handle in enumerate(handles):
            w, *turn = places["rotations"][handle]
            at = self._objects[slot]
            data.qpos[at : at + 3] = from_habitat(places["objects"][handle])
            data.qpos[at + 3 : at + 7] = w, *from_habitat(turn)
        mujoco.mj_kinematics(sim.model, data)
        held = places["held"]
        self._hold(None if held is None else handles.index(held), places["held_marker"])
        sim.sleep_all()
        self._suction.update(data, None)

    def _handles(self) -> list[str]:
        scene = self._sim.scene
        assert scene is not None  # it has been reset
        return object_handles([placed.kind for placed in scene.objects])

    def _hold(self, slot: int | None, marker: str | None) -> None:
        """Grips what is gripped there, where it is."""
        sim = self._sim
        if (slot, marker) == (sim.held_object, sim.held_marker):
            return
        sim.drop()
        if slot is not None:
            self._suction.hold_object(sim.data, slot)
        elif marker is not None:
            self._suction.hold_handle(sim.data, fur.MARKERS[marker], sim.ee_pos_w)
