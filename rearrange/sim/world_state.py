"""WorldState: the full state of a simulation in mid-episode, as plain data.

    Simulation --of--> WorldState --put into--> the same or another Simulation

A simulation itself holds pointers into MuJoCo's memory and cannot be copied; its state can be
pickled, kept and restored any number of times. What follows is bit for bit what would have followed
there.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from rearrange.sim.scene import Scene

if TYPE_CHECKING:
    from rearrange.sim.simulation import Simulation

# MuJoCo 4.0 leaves these counts out when it pickles its data; a step with wrong ones is fatal.
_AWAKE = ("nbody_awake", "nparent_awake", "ntree_awake", "nv_awake")


class Placeholder(Enum):
    """Stands in a state for what is not copied."""

    SIMULATION = "the environment's own simulation"


@dataclass(frozen=True)
class WorldState:
    """The state between two control steps."""

    scene: Scene
    data: mujoco.MjData
    """MuJoCo's own state, including contacts and sleeping bodies."""
    collision_bits: np.ndarray
    """[ngeom], the model's `geom_contype`: what is held passes through the robot."""
    constraints: np.ndarray
    """[neq, ...], the model's `eq_data`: where what is held is held."""
    parts: dict[str, dict[str, Any]]
    """States of the suction gripper and the force meter, by name."""
    arm_target: np.ndarray
    """[7] rad."""
    hold_violation: bool
    motor_lead: float | None
    """As of `Simulation`: chains change it from skill to skill."""

    @classmethod
    def of(cls, sim: Simulation) -> WorldState:
        """The state that `sim` is in, copied. Raises RuntimeError before its first reset."""
        if sim.scene is None:
            raise RuntimeError("a simulation has a state only after its first reset")
        model = sim.model
        parts = {name: part.state() for name, part in sim.stateful_parts().items()}
        return cls(
            sim.scene, copy.copy(sim.data), model.geom_contype.copy(), model.eq_data.copy(),
            copy.deepcopy(parts), sim.arm_target.copy(), sim.hold_violation,
            sim.motor_lead,
        )  # fmt: skip

    def put_into(self, sim: Simulation) -> None:
        """Brings `sim` into this state, whatever it was in."""
        sim.reset(self.scene)  # writes apartment and objects into the model
        sim.model.geom_contype[:] = self.collision_bits
        sim.model.eq_data[:] = self.constraints
        mujoco.mj_copyData(sim.data, sim.model, self.data)
        for name, part in sim.stateful_parts().items():
            part.restore(copy.deepcopy(self.parts[name]))
        sim.arm_target = self.arm_target.copy()
        sim.hold_violation = self.hold_violation
        sim.motor_lead = self.motor_lead

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"awake": {name: getattr(self.data, name) for name in _AWAKE}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.pop("awake").items():
            setattr(state["data"], name, value)
        vars(self).update(state)
