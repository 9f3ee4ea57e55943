"""How far both simulators agree at an episode's reset: places, joints, sensors, depth images."""

from __future__ import annotations

from typing import Any

import numpy as np

from rearrange.eval.habitat.client import HabitatEnv
from rearrange.eval.habitat.lab.conversion import from_habitat, to_habitat
from rearrange.habitat.axes import HALF_HEIGHT
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.simulation import Simulation
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.episodes.schema import LINKS, object_handles
from rearrange.tasks.rules.episode import EpisodeSpec

MAX_DEPTH = 10.0  # m, of depth images
NEAR = 0.05  # m


def agreement(ours: RearrangeEnv, there: HabitatEnv, index: int) -> dict[str, float]:
    """Of the episode of that index, which is reset in both: the largest differences.

    Returns object, goal, receptacle, hand and base in m, joint in m or rad, arm in rad, sensors
    as "sensor NAME", and of the depth image its median (m) and the share of pixels within 5 cm.
    """
    ours.reset(options={"index": index})
    there.reset(index)
    seen, theirs = ours.current_observation, there.current_observation
    episode = ours.episode
    assert episode is not None
    found = places(ours.sim, episode, there.state())
    for name, value in seen.items():
        if name == "head_depth":
            found |= depth_differences(value, theirs[name])
        elif name in theirs and theirs[name].shape == value.shape:  # HAB's have all targets in one
            found[f"sensor {name}"] = float(np.abs(value - theirs[name]).max())
    return found


def places(sim: Simulation, episode: EpisodeSpec, state: dict[str, Any]) -> dict[str, float]:
    """The largest differences of places and joints."""
    handles = object_handles([placed.kind for placed in episode.scene.objects])
    objects = [
        _apart(sim.object_pos_w(i), state["objects"][handle]) for i, handle in enumerate(handles)
    ]
    goals = [_apart(t.goal, state["goals"][handles[t.object]]) for t in episode.targets]
    x, y, yaw = sim.base_pose
    turn = (yaw - state["yaw"] + np.pi) % (2 * np.pi) - np.pi
    return {
        "object": max(objects),
        "goal": max(goals),
        "receptacle": max(_receptacles(sim, episode, state["receptacles"])),
        "joint": max(
            abs(sim.joint_position(joint) - value)
            for joint, value in joint_positions(state["joints"]).items()
        ),
        "arm": float(np.abs(sim.arm_qpos - state["arm"]).max()),
        "base": _apart((x, y, 0.0), state["base"]),
        "yaw": abs(float(turn)),
        "hand": _apart(sim.ee_pos_w, state["hand"]),
    }


def depth_differences(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Of two pictures [S, S, 1] of the same size, divided by 10 m."""
    apart = MAX_DEPTH * np.abs(ours.astype(np.float64) - theirs)
    return {
        "depth_median": float(np.median(apart)),
        "depth_near": float((apart <= NEAR).mean()),
    }


def _apart(ours: Any, theirs: Any) -> float:
    return float(np.linalg.norm(to_habitat(ours) - np.asarray(theirs)))


def joint_positions(theirs: dict[str, list[float]]) -> dict[str, float]:
    """Of all drawers (m) and doors (rad) by our names; theirs have links' numbers less the first
    one's."""
    found = {}
    for joint, (handle, link, _) in LINKS.items():
        positions = theirs[handle]
        first = 0 if len(positions) == 8 else 1  # the counter has a spare joint, see `articulated`
        found[joint] = positions[link - first]
    return found


def _receptacles(
    sim: Simulation, episode: EpisodeSpec, theirs: dict[str, list[float]]
) -> list[float]:
    """Of the middles of the boxes on all surfaces; a drawer's moves with it."""
    found = []
    for r in sim.layout.receptacles:
        is_in_drawer = r.kind == "drawer" and r.link is not None
        slide = episode.scene.joints.get(r.link, 0.0) if is_in_drawer and r.link else 0.0
        x, y = piece_to_world((r.pos[0], r.pos[1], r.yaw), slide, 0.0)
        middle = from_habitat(theirs[f"{r.parent}|{r.name}"])
        found.append(float(np.linalg.norm(middle - (x, y, r.pos[2] + HALF_HEIGHT))))
    return found
