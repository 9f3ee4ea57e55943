"""Our episodes' start states, put into habitat-lab's world after its own reset; handles in hand.

Runs in Habitat's Python: numpy and habitat alone, Python 3.9.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any

import numpy as np

from rearrange.eval.habitat.lab.tasks import STOCK_TASKS


def start_episode(env: Any, episode: Any, task: str) -> None:
    """Puts the world of a `habitat.Env` into the start state of its episode.

    Args:
        task: by our name; says what the episode's target and goal are told to.
    """
    sim, ours = env.sim, episode.info["rearrange"]
    # For worlds without physics, but made with physics too (habitat-lab 0.3.320260507,
    # RearrangeSim._add_objs): it would put what was taken from a drawer back at every step.
    sim.kinematic_relationship_manager = None
    sim.grasp_mgr.desnap(force=True)
    _set_robot(sim, episode)
    _set_joints(sim, episode.ao_states)
    _set_objects(sim, episode.rigid_objs)
    _set_goal(env, ours, task)
    if ours["start_holding"]:
        target = sim.scene_obj_ids[sim.get_targets()[0][ours["target_index"]]]
        _hold(sim, target, episode.info["rearrange_held"])
    sim.maybe_update_articulated_agent()


def _set_robot(sim: Any, episode: Any) -> None:
    mn, robot, ours = import_module("magnum"), sim.articulated_agent, episode.info["rearrange"]
    x, _, z = episode.start_position
    robot.base_pos = mn.Vector3(x, 0.0, z)
    robot.base_rot = float(ours["base_yaw"])
    robot.sim_obj.joint_velocities = np.zeros(len(robot.sim_obj.joint_velocities))
    robot.arm_joint_pos = np.array(ours["arm"], np.float32)
    robot.update()


def _set_joints(sim: Any, states: dict[str, dict[str, float]]) -> None:
    """All drawers and doors closed but those that are named."""
    found = sim.get_articulated_object_manager().get_objects_by_handle_substring()
    for handle, piece in found.items():
        if piece.object_id == sim.articulated_agent.sim_obj.object_id:
            continue
        positions = np.zeros(len(piece.joint_positions))
        for link, value in states.get(handle, {}).items():
            positions[piece.get_link_joint_pos_offset(int(link))] = value
        piece.clear_joint_states()
        piece.joint_positions = positions
        piece.awake = False


def _set_objects(sim: Any, placements: list[Any]) -> None:
    mn, objects = import_module("magnum"), sim.get_rigid_object_manager()
    for number, (_, rows) in enumerate(placements):  # habitat-lab has sorted its bodies alike
        placed = objects.get_object_by_id(sim.scene_obj_ids[number])
        placed.transformation = _matrix4(rows)
        placed.linear_velocity = placed.angular_velocity = mn.Vector3()
        placed.awake = False


def _set_goal(env: Any, ours: dict[str, Any], task: str) -> None:
    """What the episode is about: its target and where to drive."""
    sim, target = env.sim, ours["target_index"]
    if task == "navigate":
        goals = sim.get_targets()[1] if ours["start_holding"] else sim.get_target_objs_start()
        env.task._nav_to_info = dataclasses.replace(  # noqa: SLF001, which its reset has drawn
            env.task._nav_to_info,
            nav_goal_pos=np.array(goals[target]),  # noqa: SLF001
        )
    elif STOCK_TASKS[task].is_grip_watched:
        env.task._targ_idx = target  # noqa: SLF001, as its reset does


def _hold(sim: Any, number: int, rows: list[list[float]]) -> None:
    """Puts an object there and grips it so, as suction does what it has touched."""
    robot, body = sim.articulated_agent, sim.get_rigid_object_manager().get_object_by_id(number)
    body.transformation = _matrix4(rows)
    link = robot.sim_obj.get_link_scene_node(robot.params.ee_links[0]).absolute_transformation()
    sim.grasp_mgr.snap_to_obj(
        number,
        force=False,
        should_open_gripper=False,
        rel_pos=link.inverted().transform_point(body.translation),
        keep_T=robot.ee_transform().inverted() @ body.transformation,
    )


def hold_handle_at_tip(sim: Any, before: str | None) -> str | None:
    """The marker that is gripped now, if any; one that was not before is tied to the hand's tip.

    habitat-lab ties "the end-effector and the marker", as it says, but at the origin of the hand's
    link, 8 cm behind (habitat-lab 0.3.320260507, `RearrangeGraspManager.snap_to_marker`): a handle
    is drawn into the hand and pressed against it with some 1,000 N.
    """
    grasp = sim.grasp_mgr
    name = grasp.snapped_marker_id
    if name is not None and name != before:
        mn, kinds = import_module("magnum"), import_module("habitat_sim").physics
        for number in grasp._snap_constraints:  # noqa: SLF001, its list of what ties the hand
            sim.remove_rigid_constraint(number)
        marker, robot = sim.get_marker(name), sim.articulated_agent
        grasp._snap_constraints = [  # noqa: SLF001
            grasp.create_hold_constraint(
                kinds.RigidConstraintType.PointToPoint,
                robot.params.ee_offset[0],
                mn.Vector3(*marker.offset_position),
                marker.ao_parent.object_id,
                marker.link_id,
            )
        ]
    return name


def _matrix4(rows: list[list[float]]) -> Any:
    columns = [[rows[j][k] for j in range(4)] for k in range(4)]
    return import_module("magnum").Matrix4(columns)
