"""An episode as JSON: HAB's RearrangeEpisode, and what HAB's schema cannot express.

HAB's fields (habitat-lab, rearrange_dataset.py; hab-spec 2.6 of our notes) describe the home in
Habitat's world, y up:  x_h = x,  y_h = z,  z_h = -y.  Poses are row-major 4 x 4 matrices with R_h =
C R C^T, C being that change of axes. Our own fields are in the object `rearrange`: which episode
this is, the robot's arm, quaternions (matrices hold the same rotations, rounded), the order of the
targets and their receptacles. Numbers are written exactly, so that what is read equals what was
written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rearrange.errors import UserError, one_line
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.home.house import Layout
from rearrange.sim.home.objects import KINDS, NUM_SLOTS, ObjectKind
from rearrange.sim.homes.layout import (
    HAB,
    SPLITS,
    homes_of,
    layout_ids,
    make_layout,
    varied_layout_ids,
)
from rearrange.sim.robot import fetch
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.system.checked_json import Node, quoted
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec, Target
from rearrange.tasks.rules.rulebook import make_task

FORMAT = 1
COUNTER, FRIDGE = fur.PARENTS["counter"], fur.PARENTS["fridge"]
LINKS: dict[str, tuple[str, int, str]] = {
    "drawer_left_bottom": (COUNTER, 1, "drawer1_bottom"),
    "drawer_left_top": (COUNTER, 2, "drawer1_top"),
    "drawer_middle_bottom": (COUNTER, 3, "drawer2_bottom"),
    "drawer_middle_middle": (COUNTER, 4, "drawer2_middle"),
    "drawer_middle_top": (COUNTER, 5, "drawer2_top"),
    "drawer_right_bottom": (COUNTER, 6, "drawer4"),
    "drawer_right_top": (COUNTER, 7, "drawer3"),
    "fridge_bottom_door": (FRIDGE, 1, "bottom_door"),
    "fridge_top_door": (FRIDGE, 2, "top_door"),
}
"""Our joint -> HAB's articulated object, link index and link name (hab-spec 2.3)."""

_SCENE_ID = "data/replica_cad/configs/scenes/{}.scene_instance.json"
_DATASET = "data/replica_cad/replicaCAD.scene_dataset_config.json"
_OBJECT_PATHS = ["data/objects/ycb/configs/"]
_OBJECT_FILE = ".object_config.json"
_JOINT_OF_LINK = {(handle, str(link)): joint for joint, (handle, link, _) in LINKS.items()}
_TO_Y_UP = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
_TURN_DIGITS = 7  # of a matrix; exact rotations are in `rearrange`
_TURN_TOLERANCE = 1e-6
_MOST_COUNT = 2**53  # seeds and indices: integers that every JSON reader represents exactly


# --- writing -------------------------------------------------------------------------------------


def episode_to_json(spec: EpisodeSpec) -> dict[str, Any]:
    """The episode as a value for `json.dump`. Raises UserError for unknown layouts and kinds."""
    scene = spec.scene
    layout = make_layout(scene.layout_id, scene.home_digest)
    handles = object_handles([placement.kind for placement in scene.objects])
    states: dict[str, dict[str, float]] = {}
    for joint, value in scene.joints.items():
        handle, link, _ = LINKS[joint]
        states.setdefault(handle, {})[str(link)] = float(value)
    labels, targets = {}, {}
    for target in spec.targets:
        labels[handles[target.object]] = target.name
        targets[handles[target.object]] = pose_matrix(target.goal, (1.0, 0.0, 0.0, 0.0))
    x, y, yaw = scene.base
    return {
        "episode_id": str(spec.index),
        "scene_id": _SCENE_ID.format(scene.layout_id),
        "scene_dataset_config": _DATASET,
        "additional_obj_config_paths": list(_OBJECT_PATHS),
        "start_position": [float(x), 0.0, -float(y)],
        "start_rotation": [0.0, math.sin(yaw / 2), 0.0, math.cos(yaw / 2)],
        "info": {"object_labels": labels},
        "ao_states": states,
        "rigid_objs": [[p.kind + _OBJECT_FILE, pose_matrix(p.pos, p.quat)] for p in scene.objects],
        "targets": targets,
        "markers": [_marker(layout, name) for name in fur.MARKERS],
        "target_receptacles": [_place(layout, t.start_receptacle) for t in spec.targets],
        "goal_receptacles": [_place(layout, t.goal_receptacle) for t in spec.targets],
        "name_to_receptacle": _standing_on(layout, scene, handles),
        "goals": [],
        "shortest_paths": None,
        "start_room": None,
        "rearrange": {
            "format": FORMAT,
            "task": spec.task,
            "split": spec.split,
            "seed": spec.seed,
            "index": spec.index,
            "layout": scene.layout_id,
            **({"home_digest": scene.home_digest} if scene.home_digest else {}),
            "base_yaw": float(yaw),
            "arm": [float(v) for v in scene.arm],
            "quats": [[float(v) for v in p.quat] for p in scene.objects],
            "targets": [
                {
                    "object": handles[t.object],
                    "name": t.name,
                    "start": [float(v) for v in t.start],
                    "start_receptacle": t.start_receptacle,
                    "goal_receptacle": t.goal_receptacle,
                    "start_container": t.start_container,
                    "goal_container": t.goal_container,
                }
                for t in spec.targets
            ],
            "target_index": spec.target_index,
            "marker": spec.marker,
            "start_holding": spec.start_holding,
        },
    }


def object_handles(kinds: list[str]) -> list[str]:
    """HAB's instance handles: the n-th object of a kind is `<kind>_:000n`."""
    seen: dict[str, int] = {}
    handles = []
    for kind in kinds:
        seen[kind] = seen.get(kind, -1) + 1
        handles.append(f"{kind}_:{seen[kind]:04d}")
    return handles


def pose_matrix(pos, quat) -> list[list[float]]:
    """A pose of our world as Habitat's 4 x 4 matrix."""
    turn = np.round(_TO_Y_UP @ rotation_matrix(quat) @ _TO_Y_UP.T, _TURN_DIGITS) + 0.0
    x, y, z = (float(v) for v in pos)
    rows = [[float(v) for v in row] for row in turn]
    return [[*rows[0], x], [*rows[1], z], [*rows[2], -y], [0.0, 0.0, 0.0, 1.0]]


def rotation_matrix(quat) -> np.ndarray:
    """[3, 3] of a unit quaternion (w, x, y, z)."""
    w, x, y, z = quat
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def marker_offset(layout: Layout, name: str) -> tuple[float, float, float]:
    """Middle of a handle in its link's frame, m; links' own frames are z up, as in their URDFs."""
    joint = fur.MARKERS[name]
    if joint in fur.DRAWERS:
        return (fur.DRAWER_HANDLE_X, 0.0, 0.0)
    x, y, z = fur.door_boxes(joint, layout.fridge)["handle"][0]
    return (x, y, round(z, 6))


def _marker(layout: Layout, name: str) -> dict[str, Any]:
    handle, _, link = LINKS[fur.MARKERS[name]]
    params = {"offset": list(marker_offset(layout, name)), "link": link, "object": handle}
    return {"name": name, "type": "articulated_object", "params": params}


def _place(layout: Layout, receptacle: str) -> list[Any]:
    """[furniture handle, link index or None] of a receptacle."""
    found = layout.receptacle(receptacle)
    return [found.parent, None if found.link is None else LINKS[found.link][1]]


def _standing_on(layout: Layout, scene: Scene, handles: list[str]) -> dict[str, str]:
    """Object handle -> "furniture handle|receptacle" of all objects that stand on a receptacle."""
    where = {}
    for handle, placement in zip(handles, scene.objects, strict=True):
        height = placement.pos[2] - KINDS[placement.kind].half_height
        for r in layout.receptacles:
            slide = scene.joints.get(r.link, 0.0) if r.kind == "drawer" and r.link else 0.0
            x, y = piece_to_world((r.pos[0], r.pos[1], r.yaw), slide, 0.0)
            dx, dy = piece_to_world((0.0, 0.0, -r.yaw), placement.pos[0] - x, placement.pos[1] - y)
            if abs(dx) <= r.half[0] and abs(dy) <= r.half[1] and abs(height - r.pos[2]) < 0.02:
                where[handle] = f"{r.parent}|{r.name}"
                break
    return where


# --- reading -------------------------------------------------------------------------------------


def episode_from_json(value: Any, where: str) -> EpisodeSpec:
    """The episode of a decoded JSON value.

    Args:
        value: one element of the file's `episodes`, as decoded from JSON.
        where: how the line of an error begins, such as "home.json.gz: episode 3: ".

    Raises:
        UserError: one line, for anything that `episode_to_json` would not write for a valid
        episode.
    """
    node = Node(value, where)
    ours = node["rearrange"]
    ours["format"].equal(FORMAT)
    task = ours["task"].text(TASKS)
    split = ours["split"].text(SPLITS)
    layout_id = ours["layout"].text()
    try:
        homes = homes_of(layout_id)
        varied = varied_layout_ids() if (split, homes) == ("train", HAB) else ()  # starts="varied"
        known = layout_ids(split, homes) + varied
        layout = make_layout(layout_id) if layout_id in known else None
    except UserError as error:  # of a home in a file of its own
        raise UserError(f"{where}rearrange.layout: {one_line(error)}") from error
    ours["layout"].text(known)
    assert layout is not None
    digest = _read_digest(ours, where)
    node["episode_id"].text()
    node["scene_id"].equal(_SCENE_ID.format(layout_id))
    node["scene_dataset_config"].equal(_DATASET)
    node["additional_obj_config_paths"].equal(_OBJECT_PATHS)
    node["goals"].equal([])
    node["shortest_paths"].equal(None)
    node["start_room"].equal(None)
    objects = _read_objects(node["rigid_objs"], ours["quats"], layout)
    handles = object_handles([placement.kind for placement in objects])
    scene = Scene(
        layout_id, objects, _read_base(node, ours, layout), _read_arm(ours["arm"]),
        _read_joints(node["ao_states"]), digest,
    )  # fmt: skip
    targets = _read_targets(node, ours, layout, handles)
    _check_markers(node["markers"], layout)
    _check_standing(node["name_to_receptacle"], handles, layout)
    spec = EpisodeSpec(
        task, split, ours["seed"].integer(0, _MOST_COUNT), ours["index"].integer(0, _MOST_COUNT),
        scene, targets, ours["target_index"].integer(0, len(targets) - 1),
        ours["marker"].text_or_null(fur.MARKERS), ours["start_holding"].boolean(),
    )  # fmt: skip
    try:
        make_task(task).check_episode(spec)
    except UserError as error:
        raise UserError(f"{where}{error}") from None
    return spec


def _read_digest(ours: Node, where: str) -> str:
    """The digest of the home's file; files written before there was one have none."""
    if "home_digest" not in ours.value:
        return ""
    digest = ours["home_digest"].text()
    try:
        make_layout(ours["layout"].value, digest)
    except UserError as error:
        raise UserError(f"{where}{error}") from None
    return digest


def _read_matrix(node: Node) -> tuple[tuple[float, float, float], np.ndarray]:
    """Position and rotation [3, 3] in our world frame."""
    rows = [row.numbers(4) for row in node.list(4, 4)]
    if rows[3] != (0.0, 0.0, 0.0, 1.0):
        node.fail("end with the row 0, 0, 0, 1", quoted(list(rows[3])))
    turn = np.array([row[:3] for row in rows[:3]])
    with np.errstate(over="ignore", invalid="ignore"):
        is_orthonormal = np.abs(turn @ turn.T - np.eye(3)).max() < _TURN_TOLERANCE
        is_turn = is_orthonormal and np.linalg.det(turn) > 0
    if not is_turn:
        node.fail("begin with a 3 x 3 rotation matrix", "other numbers")
    return (rows[0][3], -rows[2][3], rows[1][3]), _TO_Y_UP.T @ turn @ _TO_Y_UP


def _check_inside(node: Node, pos, layout: Layout) -> None:
    if not layout.holds(pos):
        x, y, z = pos
        node.fail(f"lie in {layout.extent}", f"x {x:g}, y {y:g}, z {z:g}")


def _read_objects(rigid: Node, quats: Node, layout: Layout) -> tuple[ObjectPlacement, ...]:
    elements = rigid.list(NUM_SLOTS)
    objects = []
    for element, quat in zip(elements, quats.list(len(elements), len(elements)), strict=True):
        name, matrix = element.list(2, 2)
        kind = _read_kind(name)
        pos, turn = _read_matrix(matrix)
        _check_inside(matrix, pos, layout)
        wxyz = quat.numbers(4)
        if abs(sum(v * v for v in wxyz) - 1.0) > _TURN_TOLERANCE:
            quat.fail("be a quaternion of length 1", "other numbers")
        if np.abs(rotation_matrix(wxyz) - turn).max() > _TURN_TOLERANCE:
            quat.fail(f"turn as the matrix of {element.path} does", "another turn")
        objects.append(ObjectPlacement(kind.name, pos, wxyz))
    return tuple(objects)


def _read_kind(node: Node) -> ObjectKind:
    name = node.text().removesuffix(_OBJECT_FILE)
    if name not in KINDS or not node.value.endswith(_OBJECT_FILE):
        node.fail(f"be <kind>{_OBJECT_FILE} with one of the kinds {', '.join(KINDS)}")
    return KINDS[name]


def _read_base(node: Node, ours: Node, layout: Layout) -> tuple[float, float, float]:
    x, height, z = node["start_position"].numbers(3)
    _check_inside(node["start_position"], (x, -z, height), layout)
    yaw = ours["base_yaw"].number(-100.0, 100.0)
    turn = node["start_rotation"].numbers(4)
    expected = (0.0, math.sin(yaw / 2), 0.0, math.cos(yaw / 2))
    if np.abs(np.subtract(turn, expected)).max() > _TURN_TOLERANCE:
        node["start_rotation"].fail("be the turn by rearrange.base_yaw about y", "another turn")
    return x, -z, yaw


def _read_arm(node: Node) -> tuple[float, ...]:
    angles = zip(node.list(7, 7), fetch.ARM_JOINTS, strict=True)
    return tuple(angle.number(joint.lower, joint.upper) for angle, joint in angles)


def _read_joints(node: Node) -> dict[str, float]:
    joints = {}
    for handle, states in node.items():
        for link, value in states.items():
            joint = _JOINT_OF_LINK.get((handle, link))
            if joint is None:
                value.fail("be the state of a known link of the counter or the fridge")
            highest = fur.DRAWER_TRAVEL if joint in fur.DRAWERS else fur.FRIDGE_DOOR_RANGE
            joints[joint] = value.number(0.0, highest)
    return joints


def _read_targets(node: Node, ours: Node, layout: Layout, handles: list[str]) -> tuple[Target, ...]:
    elements = ours["targets"].list(NUM_SLOTS, 1)
    count = len(elements)
    goals, labels = dict(node["targets"].items()), dict(node["info"]["object_labels"].items())
    starts, ends = node["target_receptacles"], node["goal_receptacles"]
    starts, ends = starts.list(count, count), ends.list(count, count)
    for field, keys in (("targets", goals), ("info.object_labels", labels)):
        if len(keys) != count:
            must = f"name the {count} objects of rearrange.targets in {field}"
            node.fail(must, f"{len(keys)} names")
    targets, taken = [], set()
    for i, element in enumerate(elements):
        handle = element["object"].text()
        if handle not in handles:
            element["object"].fail("name an object of rigid_objs")
        if handle in taken:
            element["object"].fail("name another object than the targets before")
        taken.add(handle)
        if handle not in goals or handle not in labels:
            element["object"].fail("be a key of targets and of info.object_labels")
        goal, _ = _read_matrix(goals[handle])
        _check_inside(goals[handle], goal, layout)
        start = element["start"].numbers(3)
        _check_inside(element["start"], start, layout)
        name = labels[handle].text()
        element["name"].equal(name)
        known = {receptacle.name for receptacle in layout.receptacles}
        start_name = element["start_receptacle"].text(known)
        goal_name = element["goal_receptacle"].text(known)
        starts[i].equal(_place(layout, start_name))
        ends[i].equal(_place(layout, goal_name))
        targets.append(
            Target(
                handles.index(handle), name, start, goal, start_name, goal_name,
                element["start_container"].text_or_null(fur.ARTICULATED_JOINTS),
                element["goal_container"].text_or_null(fur.ARTICULATED_JOINTS),
            )
        )  # fmt: skip
    return tuple(targets)


def _check_markers(node: Node, layout: Layout) -> None:
    for marker in node.list(len(fur.MARKERS)):
        name = marker["name"].text(fur.MARKERS)
        expected = _marker(layout, name)
        marker["type"].equal(expected["type"])
        marker["params"]["offset"].numbers(3)
        for key in ("link", "object"):
            marker["params"][key].equal(expected["params"][key])


def _check_standing(node: Node, handles: list[str], layout: Layout) -> None:
    known = {(receptacle.parent, receptacle.name) for receptacle in layout.receptacles}
    for handle, place in node.items():
        if handle not in handles:
            place.fail("belong to an object of rigid_objs", "another name")
        furniture, _, receptacle = place.text().partition("|")
        if (furniture, receptacle) not in known:
            place.fail("be <furniture handle>|<receptacle>")
