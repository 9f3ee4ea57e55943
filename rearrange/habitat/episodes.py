"""Our episodes as a RearrangeDataset-v0 file that stock habitat-lab loads.

habitat-lab makes an object of each episode with exactly the fields of `FIELDS`; one more is an
error there (habitat-lab 0.3.320260507, datasets/rearrange/rearrange_dataset.py). What only we need
goes into `info`, which may hold anything, so that what was exported can be read back exactly.
`info` also says how an object that is held at the start hangs from the hand: habitat-lab's own
starts put its middle into the hand.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from rearrange.sim.simulation import Simulation
from rearrange.system.checked_json import Node
from rearrange.tasks.episodes.schema import episode_from_json, episode_to_json, pose_matrix
from rearrange.tasks.rules.episode import EpisodeSpec

FIELDS = (
    "episode_id", "scene_id", "scene_dataset_config", "additional_obj_config_paths",
    "start_position", "start_rotation", "info", "ao_states", "rigid_objs", "targets", "markers",
    "target_receptacles", "goal_receptacles", "name_to_receptacle",
)  # fmt: skip
OURS = "rearrange"  # the key of what only we need
HELD = "rearrange_held"  # that of the pose of what is held at the start, a 4 x 4 matrix or null
_ONLY_OURS = {"goals": [], "shortest_paths": None, "start_room": None}  # of our own files
FILES: dict[str, str] = {
    "rearrange_easy": "rearrange_easy",
    "tidy_house": "tidy_house_10k_1k",
    "prepare_groceries": "prepare_groceries_10k_1k",
    "set_table": "set_table_10k_1k",
    "open_drawer": "in_drawer_1k_100",
    "open_fridge": "in_fridge_1k_100",
}
"""Task -> the file that habitat-lab's own configuration names (hab-spec 11).

Its Pick, Place and NavToObj take rearrange_easy, opening and closing drawers or the fridge the last
two; where the robot stands and what is open there, habitat-lab decides itself.
"""


def file_name(task: str) -> str:
    """Name of a task's file, below the folder of its split."""
    return f"{FILES.get(task, task)}.json.gz"


def habitat_episode(spec: EpisodeSpec) -> dict[str, Any]:
    """An episode with habitat-lab's fields. Raises UserError as `episode_to_json`."""
    value = episode_to_json(spec)
    value["info"] = value["info"] | {OURS: value[OURS], HELD: _held(spec)}
    return {name: value[name] for name in FIELDS}


def _held(spec: EpisodeSpec) -> list[list[float]] | None:
    """Where the object hangs that is held at the start, as a matrix of `rigid_objs`."""
    if not spec.start_holding:
        return None
    sim, slot = _world(), spec.targets[spec.target_index].object
    sim.reset(spec.scene)
    sim.snap_object(slot)
    return pose_matrix(sim.object_pos_w(slot), sim.object_quat_w(slot))


@cache
def _world() -> Simulation:
    return Simulation()


def exported_episode(value: dict[str, Any], where: str) -> EpisodeSpec:
    """The episode that `habitat_episode` was made of. Raises UserError as `episode_from_json`."""
    node = Node(value, where)
    ours = node["info"][OURS].value
    info = {key: member for key, member in node["info"].value.items() if key not in (OURS, HELD)}
    return episode_from_json(value | _ONLY_OURS | {"info": info, OURS: ours}, where)


def episode_file(episodes: Sequence[EpisodeSpec]) -> bytes:
    """Content of a `.json.gz`; the same bytes for the same episodes."""
    text = json.dumps(
        {"episodes": [habitat_episode(spec) for spec in episodes]},
        separators=(",", ":"),
        allow_nan=False,
    )
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as stream:
        stream.write(text.encode())
    return packed.getvalue()
