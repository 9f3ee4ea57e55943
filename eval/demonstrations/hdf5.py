"""Demonstrations in HDF5: one plain file, or a Minari folder, with the same groups.

    episode_0                  attributes: id, total_steps, and the episode's facts
      observations/NAME        [T + 1, n] float32; head_depth [T + 1, H, W, 1] float32 in [0, 1]
      actions                  [T, 11] float32
      rewards                  [T] float64
      terminations             [T] bool
      truncations              [T] bool
      infos/success            [T] bool, after the step
      infos/skill              [T] text: the skill at work
      infos/step               [T] text: the step of the plan, in words
      infos/motor_lead         [T] float64, rad; 0: any
      infos/world              [T + 1] int64, digests of the world's state
    episode_1 ...

Layout and names are those of Minari's HDF5 storage, whose loader goes by them. Unlike Minari's own
writer this one compresses. Pictures are multiples of 1 / 4095, see `demonstration`.
"""

from __future__ import annotations

import copy
import io
import json
import operator
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.eval.demonstrations.demonstration import (
    DEPTH,
    MOST_CODE,
    Demonstration,
    check_count,
    checked,
    to_codes,
    to_depth,
)
from rearrange.system.checked_json import strict_json
from rearrange.system.outputs import atomic_write_bytes

FILE = "demonstrations.hdf5"
MINARI_FILE, MINARI_ABOUT = "data/main_data.hdf5", "data/metadata.json"
PIECE = "episode"  # the group in a piece's file
NEEDS = {"h5py": "h5py"}
NEEDS_OF_MINARI = {"h5py": "h5py", "minari": "minari"}
CHUNK_BYTES = 2**20
_PACKED = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
_SCALARS = (str, bool, int, float)


class Hdf5Format:
    """One file."""

    suffix = ".hdf5"
    needs = NEEDS
    has_all_pictures = True
    made: tuple[str, ...] = (FILE,)

    def write_piece(self, demonstration: Demonstration, path: Path) -> None:
        """One episode's file, whole or not at all."""
        import h5py

        # Made in memory: where a disk is full HDF5 crashes as it closes the file.
        whole = io.BytesIO()
        with h5py.File(whole, "w") as file:
            write_group(file.create_group(PIECE), demonstration)
        atomic_write_bytes(path, whole.getvalue())

    def assemble(self, pieces: Sequence[Path], folder: Path) -> None:
        """Makes the data set of the pieces, in their order."""
        join_pieces(pieces, folder / FILE)

    def read(self, folder: Path) -> Iterator[Demonstration]:
        """The episodes in their order. Raises ValueError and others for a damaged file."""
        return read_file(folder / FILE)


class MinariFormat(Hdf5Format):
    """A folder that Minari loads: data/main_data.hdf5, data/metadata.json."""

    needs = NEEDS_OF_MINARI
    made = ("data",)

    def assemble(self, pieces: Sequence[Path], folder: Path) -> None:
        import minari
        from minari.dataset.minari_storage import MinariStorage

        from rearrange.tasks.registry import make_env

        first = read_facts(pieces[0])
        env = make_env(**first["environment"])
        storage = MinariStorage.new(  # Minari takes a relative folder for one within itself
            (folder / "data").resolve(), env.observation_space, env.action_space, _env_spec(first),
            data_format="hdf5", jpeg_encoding=False,
        )  # fmt: skip
        steps = join_pieces(pieces, folder / MINARI_FILE)
        storage.update_metadata(
            {
                "total_episodes": len(pieces),
                "total_steps": steps,
                "dataset_id": minari_id(folder.parent.name, first),
                "algorithm_name": first["agent"],
                "description": f"{first['instruction']}: demonstrations by {first['agent']}",
                "minari_version": minari.__version__,
            }
        )
        storage.update_metadata({"dataset_size": float(storage.get_size())})

    def read(self, folder: Path) -> Iterator[Demonstration]:
        about = strict_json((folder / MINARI_ABOUT).read_text(encoding="utf-8"))
        count = steps = 0
        for one in read_file(folder / MINARI_FILE):
            count, steps = count + 1, steps + len(one)
            yield one
        check_count(f"total_episodes of {MINARI_ABOUT}", about["total_episodes"], count)
        check_count(f"total_steps of {MINARI_ABOUT}", about["total_steps"], steps)


def minari_id(name: str, facts: dict[str, Any]) -> str:
    """The folder's own name if that is an id, so that Minari finds it by it; else of the facts."""
    if re.fullmatch(r"[-\w]+-v\d+", name):
        return name
    return re.sub(r"[^-\w]", "-", f"{facts['task']}-{facts['agent']}") + "-v0"


def join_pieces(pieces: Sequence[Path], path: Path) -> int:
    """One file of them all, copied as they are packed; returns the control steps in it."""
    import h5py

    _check_room(path, sum(piece.stat().st_size for piece in pieces))
    steps = 0
    with h5py.File(path, "w", track_order=True) as file:
        for index, piece in enumerate(pieces):
            with h5py.File(piece, "r") as one:
                one.copy(PIECE, file, name=f"episode_{index}")
            group = file[f"episode_{index}"]
            group.attrs["id"] = index
            steps += int(group.attrs["total_steps"])
        file.attrs["format"] = "rearrange demonstrations 1"
        file.attrs["total_episodes"], file.attrs["total_steps"] = len(pieces), steps
    return steps


def _check_room(path: Path, size: int) -> None:
    """Raises OSError unless a file may have so many bytes there: HDF5's own error does not say so,
    and may be a crash."""
    try:
        with open(path, "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
    finally:
        path.unlink(missing_ok=True)


def read_file(path: Path) -> Iterator[Demonstration]:
    """Every episode of a file of ours. Raises ValueError, OSError and others if it is none."""
    import h5py

    with h5py.File(path, "r") as file:
        count, steps = _count(file, "total_episodes"), 0
        if {*file} != {f"episode_{index}" for index in range(count)}:
            raise ValueError(f"total_episodes is {count}, and there are {len(file)}")
        for index in range(count):
            one = read_group(file[f"episode_{index}"])
            steps += len(one)
            yield one
        check_count("total_steps", _count(file, "total_steps"), steps)


def _count(thing: Any, name: str) -> int:
    value = thing.attrs[name]
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from error


def read_facts(piece: Path) -> dict[str, Any]:
    """The facts of a piece's episode."""
    import h5py

    with h5py.File(piece, "r") as file:
        return json.loads(file[PIECE].attrs["facts"])


def write_group(group: Any, demonstration: Demonstration) -> None:
    """Fills an empty group, as above."""
    import h5py

    one, text = demonstration, h5py.string_dtype()
    seen = group.create_group("observations")
    for name, values in one.observations.items():
        seen.create_dataset(name, data=values, **_PACKED)
    if one.depth is not None:
        pictures = to_depth(one.depth)[..., None]
        frames = max(1, CHUNK_BYTES // pictures[0].nbytes)
        chunks = (min(frames, len(pictures)), *pictures.shape[1:])
        seen.create_dataset(DEPTH, data=pictures, chunks=chunks, **_PACKED)
    group.create_dataset("actions", data=one.actions, **_PACKED)
    group.create_dataset("rewards", data=one.rewards)
    group.create_dataset("terminations", data=one.terminated)
    group.create_dataset("truncations", data=one.truncated)
    infos = group.create_group("infos")
    infos.create_dataset("success", data=one.success)
    infos.create_dataset("skill", data=one.skills, dtype=text)
    infos.create_dataset("step", data=one.steps, dtype=text)
    infos.create_dataset("motor_lead", data=one.motor_leads)
    infos.create_dataset("world", data=one.worlds)
    shown = {name: value for name, value in one.facts.items() if isinstance(value, _SCALARS)}
    group.attrs.update(shown | {"total_steps": len(one), "facts": json.dumps(one.facts)})


def read_group(group: Any) -> Demonstration:
    """The counterpart of `write_group`. Raises ValueError and others for what is damaged."""
    infos = group["infos"]
    observations = {name: _array(group["observations"], name) for name in group["observations"]}
    pictures = observations.pop(DEPTH, None)
    one = checked(
        Demonstration(
            facts=strict_json(group.attrs["facts"]),
            observations=observations,
            depth=None if pictures is None else _codes(pictures),
            actions=_array(group, "actions"),
            rewards=_array(group, "rewards"),
            terminated=_array(group, "terminations"),
            truncated=_array(group, "truncations"),
            success=_array(infos, "success"),
            motor_leads=_array(infos, "motor_lead"),
            worlds=_array(infos, "world"),
            skills=_texts(infos, "skill"),
            steps=_texts(infos, "step"),
        )
    )
    check_count("total_steps", _count(group, "total_steps"), len(one))
    return one


def _array(group: Any, name: str) -> np.ndarray:
    import h5py

    if not isinstance(group[name], h5py.Dataset):
        raise ValueError(f"{name} must be an array")
    return np.asarray(group[name][()])


def _texts(group: Any, name: str) -> list[str]:
    texts = _array(group, name)
    if texts.ndim != 1 or not all(isinstance(text, bytes) for text in texts):
        raise ValueError(f"{name} must be a list of texts")
    return [text.decode() for text in texts]


def _codes(pictures: np.ndarray) -> np.ndarray:
    """Of pictures [T, H, W, 1] as they are stored."""
    is_depth = pictures.dtype == np.float32 and pictures.ndim == 4 and pictures.shape[3] == 1
    if not is_depth or not ((pictures >= 0.0) & (pictures <= 1.0)).all():
        raise ValueError(f"{DEPTH} must be float32 in [0, 1] of shape [T + 1, H, W, 1]")
    codes = to_codes(pictures[..., 0])
    if not np.array_equal(to_depth(codes), pictures[..., 0]):
        raise ValueError(f"{DEPTH} must be multiples of 1 / {MOST_CODE}")
    return codes


def _env_spec(facts: dict[str, Any]) -> Any:
    """How Gymnasium makes the environment, for Minari's `recover_environment`."""
    import gymnasium

    from rearrange.tasks.rules.definition import TASKS

    spec = copy.deepcopy(gymnasium.spec(TASKS[facts["task"]].env_id))
    spec.kwargs = {name: value for name, value in facts["environment"].items()}
    return spec
