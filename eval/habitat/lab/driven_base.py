"""The robot's base in habitat-lab, driven through a control step as ours is.

    stock     action -> base at its new place -> physics around a base that rests -> sensors
    driven    action -> physics while the base drives -> base at its new place -> sensors

habitat-lab moves the base at once, without a speed and by up to 8 cm, so that a hand which pushes
stands inside what it should have pushed; and a base that touches the navmesh's edge stays there.
Ours drives through what is pushed, and slides along what it touches. The place that it reaches is
the same, but for the sliding.

Its action is an addition by habitat-lab's own registry (0.3.320260507), through its public
interface.

Runs in Habitat's Python: numpy and habitat alone, Python 3.9.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

SUBSTEPS = 4  # physics steps of a control step, here and in HAB
_NAME = "RearrangeDrivenBaseAction"
_OVERRIDES = {
    # habitat-lab does two physics steps more than it says, for any task of its own
    # (EmbodiedTask.step): 1/60 s.
    "stock": (f"habitat.simulator.ac_freq_ratio={SUBSTEPS - 2}",),
    # All of them are the action's, none are left for afterwards.
    "driven": (
        f"habitat.task.actions.base_velocity.type={_NAME}",
        "habitat.simulator.ac_freq_ratio=0",
        "habitat.task.physics_target_sps=1e9",
        "habitat.simulator.habitat_sim_v0.allow_sliding=True",
    ),
}


def base_overrides(base: str) -> tuple[str, ...]:
    """What habitat-lab's configuration needs for such a base, driven or stock."""
    if base == "driven":
        _register()
    return _OVERRIDES[base]


def _register() -> None:
    """Makes the action known to habitat-lab. May be called again."""
    registry = import_module("habitat.core.registry").registry
    stock: Any = import_module("habitat.tasks.rearrange.actions.actions").BaseVelAction

    class DrivenBaseAction(stock):
        """Speeds are those of the stock action; its `step` reads them and asks for a move."""

        def step(self, *args: Any, **kwargs: Any) -> None:
            self._is_asked = False
            super().step(*args, **kwargs)
            body = self.cur_articulated_agent.sim_obj
            turn = self.base_vel_ctrl.angular_velocity / self._sim.ctrl_freq  # rad
            goal = self._goal(body.transformation) if self._is_asked else body.transformation
            drive(self._sim, body, goal, turn)
            if self.cur_grasp_mgr.snap_idx is not None:
                self.cur_grasp_mgr.update_object_to_grasp()  # as the stock action does

        def update_base(self) -> None:
            self._is_asked = True

        def _goal(self, start: Any) -> Any:
            """Where the move ends: on the navmesh, at its edge if it would leave it."""
            mn, state_of = import_module("magnum"), import_module("habitat_sim").RigidState
            state = state_of(mn.Quaternion.from_matrix(start.rotation()), start.translation)
            wanted = self.base_vel_ctrl.integrate_transform(1.0 / self._sim.ctrl_freq, state)
            end = self._sim.step_filter(state.translation, wanted.translation)
            if end != state.translation:  # it is on the navmesh, the base is above it
                end -= self.cur_articulated_agent.params.base_offset
            return mn.Matrix4.from_(wanted.rotation.to_matrix(), end)

    registry.register_task_action(DrivenBaseAction, name=_NAME)


def drive(sim: Any, body: Any, goal: Any, turn: Any) -> None:
    """A control step of physics in which the base drives to its goal at an even speed.

    Args:
        sim: habitat-lab's; its physics steps take 1 / ctrl_freq s.
        body: the robot. Its base has no mass there, so nothing slows it down.
        goal: of the base, a transformation.
        turn: on the way, about each axis of the world, rad.
    """
    seconds = SUBSTEPS / sim.ctrl_freq
    rest = turn * 0.0
    body.root_linear_velocity = (goal.translation - body.transformation.translation) / seconds
    body.root_angular_velocity = turn / seconds
    for _ in range(SUBSTEPS):
        body.awake = True
        sim.internal_step(-1)
    body.root_linear_velocity = body.root_angular_velocity = rest
    body.transformation = goal  # exactly: it was there but for rounding
