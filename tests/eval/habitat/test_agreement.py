"""Agreement at reset: against a state read from the exported files alone, and with faults in it."""

import copy
import json

import numpy as np
import pytest

from rearrange.eval.habitat.agreement import depth_differences, places
from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.files import load_episode
from tests.habitat.conftest import Chain, read_json

INDEX = 1
HOMES = "data/replica_cad"


def turn_of(w, x, y, z):
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


def pose_of(instance):
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn_of(*instance["rotation"]), instance["translation"]
    return pose


def boxes_of(config):
    return {k: v for k, v in config["user_defined"].items() if k.startswith("receptacle_")}


@pytest.fixture(scope="module")
def state(exported_pick):
    """Where the files put everything, as `StockEnv.state` tells it."""
    folder = exported_pick
    (path,) = (folder / "data/datasets").rglob("pick.json.gz")
    episode = read_json(path)["episodes"][INDEX]
    objects, seen = {}, {}
    for file, rows in episode["rigid_objs"]:
        kind = file.split(".")[0]
        seen[kind] = seen.get(kind, -1) + 1
        objects[f"{kind}_:{seen[kind]:04d}"] = [row[3] for row in rows[:3]]
    scene = read_json(folder / episode["scene_id"])
    receptacles = {}
    for instance in scene["object_instances"]:
        name = instance["template_name"]
        config = read_json(folder / HOMES / f"configs/objects/{name}.object_config.json")
        for key, box in boxes_of(config).items() if "user_defined" in config else ():
            middle = pose_of(instance) @ [*box["position"], 1.0]
            receptacles[f"{name}_:0000|{key}"] = middle[:3].tolist()
    joints = {}
    for instance in scene["articulated_object_instances"]:
        name = instance["template_name"]
        chain = Chain(folder / HOMES / f"urdf/{name}/{name}.urdf")
        config = read_json(folder / HOMES / f"urdf/{name}/{name}.ao_config.json")
        states = episode["ao_states"].get(f"{name}_:0000", {})
        movable = {Chain.end(j, "child"): n for n, j in chain.joints.items()
                   if j.get("type") != "fixed"}  # fmt: skip
        value_of = {link: states.get(str(chain.ids[link]), 0.0) for link in movable}
        joints[f"{name}_:0000"] = [value_of[link] for link in chain.order if link in movable]
        frames = chain.frames({movable[link]: value for link, value in value_of.items()})
        for key, box in boxes_of(config).items():
            inside = frames[box["parent_link"]] @ [*box["position"], 1.0]
            receptacles[f"{name}_:0000|{key}"] = (pose_of(instance) @ inside)[:3].tolist()
    ours = episode["info"]["rearrange"]
    robot = Chain(folder / "data/robots/hab_fetch/robots/hab_suction.urdf")
    arm = ["shoulder_pan", "shoulder_lift", "upperarm_roll", "elbow_flex", "forearm_roll",
           "wrist_flex", "wrist_roll"]  # fmt: skip
    angles = {f"{name}_joint": a for name, a in zip(arm, ours["arm"], strict=True)}
    frame = robot.frames(angles | {"torso_lift_joint": 0.15})["suction_link"]
    base, yaw = episode["start_position"], ours["base_yaw"]
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn_of(np.cos(yaw / 2), 0.0, np.sin(yaw / 2), 0.0), base
    goals = {name: [row[3] for row in rows[:3]] for name, rows in episode["targets"].items()}
    hand = (pose @ frame @ [0.08, 0.0, 0.0, 1.0])[:3].tolist()
    return {"objects": objects, "goals": goals, "receptacles": receptacles, "joints": joints,
            "arm": ours["arm"], "base": base, "yaw": yaw, "hand": hand}  # fmt: skip


@pytest.fixture(scope="module")
def world():
    episode, sim = load_episode("pick", "val", 0, INDEX), Simulation()
    sim.reset(episode.scene)
    return sim, episode


def test_exported_files_put_everything_where_our_simulation_has_it(world, state):
    found = places(*world, json.loads(json.dumps(state)))
    assert max(found.values()) < 1e-4, found


@pytest.mark.parametrize(
    "measure", ["object", "goal", "receptacle", "joint", "arm", "base", "hand"]
)
def test_each_measure_sees_what_is_displaced(world, state, measure):
    wrong = copy.deepcopy(state)
    if measure in ("arm", "base", "hand"):
        wrong[measure][0] += 0.3
    else:
        name = sorted(wrong[f"{measure}s"])[-1]
        wrong[f"{measure}s"][name][1] += 0.3
    found = places(*world, wrong)
    assert found.pop(measure) == pytest.approx(0.3, abs=1e-3)
    assert max(found.values()) < 1e-4


def test_depth_differences_are_in_metres():
    ours = np.full((4, 4, 1), 0.2, np.float32)
    theirs = ours.copy()
    theirs[0] += 0.1
    found = depth_differences(ours, theirs)
    assert found["depth_median"] == 0.0 and found["depth_near"] == 0.75
    assert depth_differences(ours, ours + 0.003)["depth_median"] == pytest.approx(0.03, rel=1e-3)
