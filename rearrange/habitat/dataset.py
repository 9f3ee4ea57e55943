"""A folder in which stock habitat-lab finds our homes, robot and episodes under its own paths.

    DIR/export.json                                          what was exported
    DIR/data/default.physics_config.json
    DIR/data/replica_cad/replicaCAD.scene_dataset_config.json
                        /stages, objects                     GLB
                        /configs/stages, objects, scenes     JSON
                        /urdf/kitchen_counter, fridge        URDF and ao_config.json
    DIR/data/objects/ycb/configs, meshes                     the loose objects
    DIR/data/robots/hab_fetch/robots/hab_suction.urdf
    DIR/data/datasets/replica_cad/rearrange/v2/SPLIT/*.json.gz

Every file is written whole, `export.json` last: a folder with it is complete. Another split, or
more tasks, can be added later; equal settings write equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rearrange
from rearrange.errors import UserError
from rearrange.habitat.articulated import (
    COUNTER,
    FRIDGE,
    articulated_config,
    counter_robot,
    fridge_robot,
)
from rearrange.habitat.contact import PHYSICS, object_physics
from rearrange.habitat.episodes import episode_file, file_name
from rearrange.habitat.fetch_urdf import arm_insides, fetch_robot
from rearrange.habitat.glb import glb_bytes
from rearrange.habitat.scenes import (
    ARTICULATED,
    body_config,
    body_name,
    dataset_config,
    floor_config,
    floor_name,
    floor_solid,
    furniture_config,
    scene_instance,
    stage_config,
    stage_name,
    stage_solids,
    template_name,
)
from rearrange.habitat.solids import solid_of_kind, solids_of_boxes
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import KINDS, YCB_KINDS
from rearrange.sim.homes.layout import HAB, layout_ids, make_layout
from rearrange.system.checked_json import strict_json
from rearrange.system.files import read_whole_file
from rearrange.system.outputs import atomic_write_bytes, prepare_folder
from rearrange.tasks.episodes.files import load_episode

SUMMARY, FORMAT = "export.json", "habitat-2"
HOMES = "data/replica_cad"
OBJECTS = "data/objects/ycb"
ROBOT = "data/robots/hab_fetch/robots/hab_suction.urdf"
DATASET = f"{HOMES}/replicaCAD.scene_dataset_config.json"
EPISODES = "data/datasets/replica_cad/rearrange/v2"
_OLDER = ("habitat",)  # formats whose floors and held objects differ
_MOST_SUMMARY = 2**20  # bytes


def export(
    folder: Path,
    split: str,
    tasks: Sequence[str],
    num_episodes: int,
    seed: int = 0,
    show: Callable[[range], Iterable[int]] = iter,
) -> dict[str, Any]:
    """Writes homes, robot and objects of a split and episodes of tasks; gives the summary.

    Args:
        show: wraps the numbers of a task's episodes, to tell how far it is.

    Raises UserError for a folder that holds something else, or cannot be written.
    """
    earlier = earlier_export(folder)
    splits = dict(earlier.get("splits", {}))
    prepare_folder(folder)
    here = splits.get(split, {})
    names = [file_name(task) for task in tasks]
    kept = {name: n for name, n in here.get("episodes", {}).items() if name not in names}
    seeds = {name: _seed_of(here, name) for name in kept}
    # What is not whole for a while is not listed meanwhile; a first export that is ended half-way
    # has a summary to be gone on with.
    if not earlier or kept != here.get("episodes", {}):
        splits[split] = here | {"seeds": seeds, "episodes": kept}
        _write(folder, SUMMARY, _json(_summary(splits)))
    kinds = set(YCB_KINDS)
    written: dict[str, int] = {}
    for task in tasks:
        indices = show(range(num_episodes))
        episodes = [load_episode(task, split, seed, index) for index in indices]
        kinds |= {placement.kind for spec in episodes for placement in spec.scene.objects}
        _write(folder, f"{EPISODES}/{split}/{file_name(task)}", episode_file(episodes))
        written[file_name(task)] = len(episodes)
    for path, content in home_files(split):
        _write(folder, path, content)
    for path, content in object_files(sorted(kinds)):
        _write(folder, path, content)
    _write(folder, ROBOT, fetch_robot().text().encode())
    for name, solid in arm_insides().items():
        _write(folder, f"{Path(ROBOT).parent}/{name}", glb_bytes([solid]))
    _write(folder, "data/default.physics_config.json", _json(PHYSICS))
    splits[split] = {
        "homes": len(layout_ids(split)),
        "seeds": seeds | dict.fromkeys(written, seed),
        "episodes": kept | written,
    }
    summary = _summary(splits)
    _write(folder, SUMMARY, _json(summary))
    return summary


def _summary(splits: dict[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, "rearrange": rearrange.__version__, "splits": splits}


def _seed_of(part: Mapping[str, Any], name: str) -> int | None:
    """Of the episodes in a file of a split; older exports have one seed for all files."""
    return part.get("seeds", {}).get(name, part.get("seed"))


def exported(folder: Path, task: str, split: str) -> tuple[int, int | None]:
    """How many episodes of a task an export has, and their seed: 0 and None where it has none.

    Raises UserError for a folder that holds something else.
    """
    there = earlier_export(folder).get("splits", {}).get(split, {})
    count = int(there.get("episodes", {}).get(file_name(task), 0))
    return count, _seed_of(there, file_name(task)) if count else None


def earlier_export(folder: Path) -> dict[str, Any]:
    """The summary of an export that lies in a folder; empty where there is none.

    Raises UserError for a folder that holds something else.
    """
    path = folder / SUMMARY
    if not path.exists():
        if folder.is_dir() and any(folder.iterdir()):
            raise UserError(
                f"output must be a new or empty folder, or one of an earlier export: {folder} "
                f"holds files and no {SUMMARY}"
            )
        return {}
    try:
        summary = strict_json(read_whole_file(path, _MOST_SUMMARY).decode())
    except ValueError as error:
        raise UserError(f"{path} must be what an export wrote, but it is no JSON") from error
    if isinstance(summary, dict) and summary.get("format") in _OLDER:
        raise UserError(f"{folder} holds an export of an earlier version: export into a new folder")
    is_ours = isinstance(summary, dict) and summary.get("format") == FORMAT
    splits = summary.get("splits") if is_ours else None
    if not isinstance(splits, dict) or not all(isinstance(part, dict) for part in splits.values()):
        raise UserError(f"{path} must be what an export wrote, got something else")
    if not all(
        _are_counts(part.get("episodes", {})) and _are_counts(part.get("seeds", {}), or_none=True)
        for part in splits.values()
    ):
        raise UserError(f"{path} must be what an export wrote, got something else")
    return summary


def _are_counts(table: Any, or_none: bool = False) -> bool:
    """Whether these are whole numbers from 0 by name."""
    return isinstance(table, dict) and all(
        (type(value) is int and value >= 0) or (or_none and value is None)
        for value in table.values()
    )


def home_files(split: str) -> Iterator[tuple[str, bytes]]:
    """Path below the folder, and content, of all files of a split's apartments."""
    stages: set[str] = set()
    layout = make_layout(layout_ids(split, HAB)[0])
    for name in layout_ids(split, HAB):
        layout = make_layout(name)
        yield f"{HOMES}/configs/scenes/{name}.scene_instance.json", _json(scene_instance(layout))
        stage = stage_name(layout)
        if stage not in stages:
            stages.add(stage)
            yield f"{HOMES}/configs/stages/{stage}.stage_config.json", _json(stage_config(stage))
            for end, has_ceiling in (("", False), ("_collision", True)):
                content = glb_bytes(stage_solids(layout, has_ceiling))
                yield f"{HOMES}/stages/{stage}{end}.glb", content
            floor = floor_name(layout)
            yield f"{HOMES}/configs/objects/{floor}.object_config.json", _json(floor_config(floor))
            yield f"{HOMES}/objects/{floor}.glb", glb_bytes([floor_solid(layout)])
    for name, piece in fur.PIECES.items():  # those of all of HAB's homes
        is_body = name in ARTICULATED
        template = body_name(name) if is_body else template_name(name)
        config = body_config(template) if is_body else furniture_config(template, piece)
        yield f"{HOMES}/configs/objects/{template}.object_config.json", _json(config)
        yield f"{HOMES}/objects/{template}.glb", glb_bytes(solids_of_boxes(piece.boxes))
    for name, robot in ((COUNTER, counter_robot(layout)), (FRIDGE, fridge_robot(layout))):
        yield f"{HOMES}/urdf/{name}/{name}.urdf", robot.text().encode()
        config = articulated_config(name, layout)
        yield f"{HOMES}/urdf/{name}/{name}.ao_config.json", _json(config)
    yield DATASET, _json(dataset_config())


def object_files(kinds: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Path below the folder, and content, of the files of loose objects."""
    for name in kinds:
        mesh = f"../meshes/{name}.glb"
        config = {"render_asset": mesh, "collision_asset": mesh} | object_physics(KINDS[name])
        yield f"{OBJECTS}/configs/{name}.object_config.json", _json(config)
        yield f"{OBJECTS}/meshes/{name}.glb", glb_bytes([solid_of_kind(KINDS[name])])


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _write(folder: Path, path: str, content: bytes) -> None:
    atomic_write_bytes(folder / path, content)
