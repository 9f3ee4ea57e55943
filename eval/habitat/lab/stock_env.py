"""An unpatched habitat-lab environment, with our sensors and actions.

    env = StockEnv(cfg)                  in the folder of an export
    sensors, facts = env.reset(0)        habitat-lab's own reset, then our start: robot, objects,
    sensors, facts = env.step(action)    drawers and doors, what is held

habitat-lab draws the start of its skills itself, so what it has drawn is replaced by the start that
each exported episode carries. Rules, rewards, physics and pictures stay habitat-lab's. The robot,
the objects and the joints are moved through its public interface. In ReplicaCAD, with habitat-lab's
own episodes, the start is the one that it has drawn.

Runs in Habitat's Python: numpy and habitat alone, Python 3.9.
"""

from __future__ import annotations

import dataclasses
import random
from importlib import import_module
from typing import Any

import numpy as np

from rearrange.eval.habitat.lab.conversion import (
    CONTROL_DT,
    LASER_POS_B,
    MAX_RANGE,
    STOP,
    coarse_depth,
    held_back,
    nearness,
    scan_directions,
    stock_action,
    with_nothing_far,
)
from rearrange.eval.habitat.lab.driven_base import base_overrides
from rearrange.eval.habitat.lab.starts import hold_handle_at_tip, start_episode
from rearrange.eval.habitat.lab.tasks import STOCK_TASKS, episode_file

_NEAR = 1e-3  # m
_OVERRIDES = (
    "habitat.simulator.concur_render=False",  # the picture of this step: ours are delayed together
    "habitat.environment.iterator_options.shuffle=False",
)


@dataclasses.dataclass(frozen=True)
class StockCfg:
    """Which episodes, and what a skill looks at."""

    task: str
    split: str
    camera_size: int = 64
    seed: int = 0
    motor_lead: float | None = None
    has_ranges: bool = False
    film_size: int = 0
    """Pixels a side of `picture`; 0: there is none."""
    device: int = -1
    """The GPU that draws; -1: software."""
    base: str = "driven"
    """How the base moves, see `driven_base`: driven or stock."""
    is_export: bool = True
    """Whether the folder is an export of ours; else it has habitat-lab's own episodes."""


class StockEnv:
    """See the module. The current folder must be that of an export."""

    def __init__(self, cfg: StockCfg) -> None:
        import_module("habitat.gym")  # registers configurations
        get_config = import_module("habitat.config.default").get_config
        self._cfg, self._stock = cfg, STOCK_TASKS[cfg.task]
        config = get_config(self._stock.config, overrides=self._overrides())
        _see_near(config)
        self._env: Any = import_module("habitat.core.env").Env(config)
        self._parts = _parts(self._env.action_space)
        self._limit = int(config.habitat.environment.max_episode_steps)
        self._rewards = config.habitat.task
        self._directions = scan_directions()
        self._last: dict[str, Any] = {}

    @property
    def num_episodes(self) -> int:
        return len(self._env.episodes)

    def reset(self, index: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The episode of that place in the file, in its own start state."""
        env = self._env
        episode = env.episodes[index]
        seed = self._cfg.seed + index
        env.seed(seed)
        random.seed(seed)  # its tasks draw by these two
        np.random.seed(seed)
        env.current_episode = episode
        stock = env.reset()
        if self._cfg.is_export:
            stock = self._start(episode)
        self._steps, self._was_holding, self._mishap = 0, self._held() is not None, None
        self._handle: str | None = None
        self._scene = episode.scene_id
        return self._told(stock)

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """One control step with an action of the full space, [11]."""
        robot = self._env.sim.articulated_agent
        action = held_back(
            action, np.array(robot.arm_motor_pos), np.array(robot.arm_joint_pos, np.float64),
            self._cfg.motor_lead, self._env.sim.articulated_agent.arm_joint_limits,
        )  # fmt: skip
        self._is_stop = float(action[STOP]) > 0.0
        stock = self._env.step(stock_action(action, self._parts))
        self._steps += 1
        self._handle = hold_handle_at_tip(self._env.sim, self._handle)
        self._watch_grip()
        return self._told(stock)

    def picture(self) -> np.ndarray:
        """The scene from behind the robot, [H, W, 3] uint8."""
        return np.ascontiguousarray(self._last["third_rgb"][:, :, :3])

    def places(self) -> dict[str, Any]:
        """Where all that moves is, in Habitat's axes: m, rad, rotations wxyz; and what is held."""
        sim, held = self._env.sim, self._held()
        robot, handles = sim.articulated_agent, sim.handle_to_object_id
        joints = sim.get_articulated_object_manager().get_objects_by_handle_substring()
        objects = sim.get_rigid_object_manager()
        bodies = {
            name: objects.get_object_by_id(sim.scene_obj_ids[i]) for name, i in handles.items()
        }
        return {
            "objects": {name: _numbers(body.translation) for name, body in bodies.items()},
            "rotations": {
                name: [float(body.rotation.scalar), *_numbers(body.rotation.vector)]
                for name, body in bodies.items()
            },
            "joints": {
                name: _numbers(found.joint_positions)
                for name, found in joints.items()
                if found.object_id != robot.sim_obj.object_id
            },
            "arm": _numbers(robot.arm_joint_pos),
            "arm_target": _numbers(robot.arm_motor_pos),
            "base": _numbers(robot.base_pos),
            "yaw": float(robot.base_rot),
            "hand": _numbers(robot.ee_transform().translation),
            "held": next(
                (name for name, i in handles.items() if sim.scene_obj_ids[i] == held), None
            ),
            "held_marker": sim.grasp_mgr.snapped_marker_id,
        }

    def state(self) -> dict[str, Any]:
        """`places`, and where goals and receptacles are, m."""
        sim, receptacles = self._env.sim, {}
        targets, goals = sim.get_targets()
        for name, found in sim.receptacles.items():
            middle = found.get_global_transform(sim).transform_point(found.bounds.center())
            receptacles[name] = _numbers(middle)
        of_targets = {
            name: _numbers(goals[list(targets).index(i)])
            for name, i in sim.handle_to_object_id.items()
            if i in list(targets)
        }
        return {**self.places(), "goals": of_targets, "receptacles": receptacles}

    def close(self) -> None:
        self._env.close()

    # --- private -------------------------------------------------------------------------------

    def _start(self, episode: Any) -> dict[str, Any]:
        """Our start in place of the one that has been drawn, and what is observed there."""
        env = self._env
        start_episode(env, episode, self._cfg.task)
        stock = env.task._get_observations(episode)  # noqa: SLF001, as its own tasks' resets do
        env.task.measurements.reset_measures(episode=episode, task=env.task, observations=stock)
        return stock

    def _overrides(self) -> list[str]:
        cfg = self._cfg
        camera = "habitat.simulator.agents.main_agent.sim_sensors.head_depth_sensor"
        found = [
            *_OVERRIDES,
            *base_overrides(cfg.base),
            f"habitat.seed={cfg.seed}",
            f"habitat.dataset.split={cfg.split}",
            f"habitat.dataset.data_path={episode_file(self._stock, cfg.split, cfg.is_export)}",
            f"habitat.simulator.habitat_sim_v0.gpu_device_id={cfg.device}",
            f"{camera}.width={cfg.camera_size}",
            f"{camera}.height={cfg.camera_size}",
        ]
        if cfg.is_export:  # ours says what is held
            found.append("habitat.task.object_in_hand_sample_prob=0.0")
        if self._stock.max_steps is not None:
            found.append(f"habitat.environment.max_episode_steps={self._stock.max_steps}")
        if cfg.film_size:
            third = "habitat.simulator.agents.main_agent.sim_sensors.third_rgb_sensor"
            found += [
                "+habitat/simulator/sim_sensors@"
                "habitat.simulator.agents.main_agent.sim_sensors.third_rgb_sensor=third_rgb_sensor",
                f"{third}.width={cfg.film_size}",
                f"{third}.height={cfg.film_size}",
            ]
        return found

    def _held(self) -> int | None:
        return self._env.sim.grasp_mgr.snap_idx

    def _watch_grip(self) -> None:
        """Notes a wrong or lost object, which ends Pick and Place there too."""
        if not self._stock.is_grip_watched:
            return
        sim, task, held = self._env.sim, self._env.task, self._held()
        is_new = held is not None and not self._was_holding
        if is_new and held != sim.scene_obj_ids[task.abs_targ_idx]:
            self._mishap = "wrong_object"
        elif self._cfg.task == "pick" and held is None and self._was_holding:
            self._mishap = "dropped"
        elif self._cfg.task == "place" and held is None and self._was_holding:
            self._mishap = "released"
        self._was_holding = held is not None

    def _told(self, stock: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Our sensors, and what there is to say of the episode."""
        self._last = stock
        sensors = {
            name: np.asarray(value, np.float32)
            for name, value in stock.items()
            if name != "third_rgb"
        }
        sensors["head_depth"] = with_nothing_far(sensors["head_depth"])
        sensors["is_holding"] = np.array([float(self._env.sim.grasp_mgr.is_grasped)], np.float32)
        hand = self._env.sim.articulated_agent.ee_transform()
        if hasattr(self._env.task, "get_use_marker"):
            marker = self._env.task.get_use_marker()
            inside = hand.inverted().transform_point(marker.get_current_position())
            sensors["marker_rel_pos"] = np.array(inside, np.float32)
            sensors["marker_js"] = self._joint_state(float(marker.get_targ_js()))
        if self._cfg.has_ranges:
            sensors["coarse_depth"] = coarse_depth(sensors["head_depth"])
            sensors["base_scan"] = nearness(self._scan())
        return sensors, self._facts()

    def _joint_state(self, position: float) -> np.ndarray:
        """Position and speed of the marker's joint, m or rad and a second, [2].

        The speed is what it moved in the last control step: the base is moved without a speed, and
        what it pulls along has next to none of its own.
        """
        before = position if self._steps == 0 else self._joint_position
        self._joint_position = position
        return np.array([position, (position - before) / CONTROL_DT], np.float32)

    def _facts(self) -> dict[str, Any]:
        env = self._env
        metrics = env.get_metrics()
        success = bool(metrics[self._stock.success])
        is_over = success or env.episode_over
        force = metrics["articulated_agent_force"]
        failure = None
        if is_over and not success:
            failure = self._failure(metrics)
        x, _, z = (float(v) for v in env.sim.articulated_agent.base_pos)
        return {
            "success": success, "is_over": is_over, "failure": failure, "steps": self._steps,
            "force": float(force["accum"]), "base": [x, -z],
            "scene": self._scene,
            "reward": self._reward(metrics, success),
        }  # fmt: skip

    def _reward(self, metrics: dict[str, Any], success: bool) -> float:
        """Of the last step, as habitat-lab's own RLTaskEnv sums it up."""
        of_task = self._rewards
        bonus = of_task.success_reward if success else 0.0
        return float(of_task.slack_reward + metrics[of_task.reward_measure] + bonus)

    def _failure(self, metrics: dict[str, Any]) -> str:
        if metrics.get("force_terminate"):
            return "force"
        if self._mishap is not None:
            return self._mishap
        if metrics.get("did_violate_hold_constraint"):
            return "hold_violation"
        if self._steps >= self._limit:
            return "time_limit"
        return "stop_without_success" if self._is_stop else "ended"

    def _scan(self) -> np.ndarray:
        """Lengths of the laser scanner's rays, m, the robot left out."""
        mn, ray_of = import_module("magnum"), import_module("habitat_sim").geo.Ray
        sim = self._env.sim
        robot = sim.articulated_agent
        base = robot.base_transformation
        own = {robot.sim_obj.object_id, *robot.sim_obj.link_object_ids}
        eye = base.transform_point(mn.Vector3(*LASER_POS_B))
        lengths = np.full(len(self._directions), MAX_RANGE)
        for i, direction in enumerate(self._directions):
            ray = ray_of(eye, base.transform_vector(mn.Vector3(*direction)))
            for hit in sim.cast_ray(ray, MAX_RANGE).hits:
                if hit.object_id not in own:
                    lengths[i] = hit.ray_distance
                    break
        return lengths


def _see_near(config: Any) -> None:
    """Cameras draw what is nearer than habitat-sim's 1 cm: the arm is, in some postures."""
    open_dict = import_module("omegaconf").open_dict
    sensors = config.habitat.simulator.agents.main_agent.sim_sensors
    for name in sensors:
        with import_module("habitat.config").read_write(config), open_dict(sensors[name]):
            sensors[name].near = _NEAR  # of `habitat_sim.CameraSensorSpec`


def _numbers(values: Any) -> list[float]:
    return [float(v) for v in values]


def _parts(space: Any) -> dict[str, tuple[str, ...]]:
    """The task's actions, each with the names of its arguments."""
    return {name: tuple(getattr(part, "spaces", {name: part})) for name, part in
            space.spaces.items()}  # fmt: skip
