"""LeRobot's data sets: an episode's piece, and reading a data set again. Which files they have and
what is in them say `lerobot_assembly` and `lerobot_frames`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.eval.demonstrations import lerobot_frames as frames
from rearrange.eval.demonstrations.demonstration import Demonstration, check_count
from rearrange.eval.demonstrations.depth_video import read_video, write_video
from rearrange.eval.demonstrations.lerobot_assembly import (
    DATA,
    EPISODES,
    NOTE,
    STEPS,
    TASKS,
    VIDEO,
    Assembly,
    video_of,
)
from rearrange.eval.demonstrations.lerobot_stats import Stats, depth_stats, listed, vector_stats
from rearrange.system.checked_json import strict_json
from rearrange.system.outputs import atomic_path


class LeRobotFormat:
    """The folder of a `LeRobotDataset`."""

    suffix = ".parquet"
    needs = {"pyarrow": "pyarrow", "av": "av"}
    has_all_pictures = False
    made = ("data", "videos", "meta")

    def write_piece(self, demonstration: Demonstration, path: Path) -> None:
        """One episode's table, and its video beside it: the table last."""
        write_piece(demonstration, path, frames.camera_feature, depth_stats)

    def assemble(self, pieces: Sequence[Path], folder: Path) -> None:
        """Makes the data set of the pieces, in their order."""
        Assembly(folder.absolute(), [piece.absolute() for piece in pieces]).run()

    def read(self, folder: Path) -> Iterator[Demonstration]:
        """The episodes in their order. Raises ValueError and others for what is damaged.

        Observations have a row less than the environment gave: the last one is in no frame.
        """
        import pyarrow.parquet as pq

        folder = folder.absolute()
        info = read_info(folder)
        tasks = pq.read_table(folder / TASKS).to_pydict()
        sentences = dict(zip(tasks["task_index"], tasks["task"], strict=True))
        has_camera = frames.CAMERA in info["features"]
        pictures = _Pictures()
        rows, num_frames = pq.read_table(folder / EPISODES).to_pylist(), 0
        check_count("total_episodes", info["total_episodes"], len(rows))
        for number, row in enumerate(rows):
            length = row["length"]
            check_count("episode_index", row["episode_index"], number)
            path = folder / DATA.format(
                chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
            )
            table = pq.read_table(path, filters=[("episode_index", "=", number)])
            depth = None
            if has_camera:
                path = folder / VIDEO.format(
                    video_key=frames.CAMERA,
                    chunk_index=row[f"videos/{frames.CAMERA}/chunk_index"],
                    file_index=row[f"videos/{frames.CAMERA}/file_index"],
                )
                depth = pictures.take(path, length)
            yield demonstration_of(table, info, sentences, depth, strict_json(row["facts"]), length)
            num_frames += length
        pictures.end()
        check_count("total_frames", info["total_frames"], num_frames)


class _Pictures:
    """Those of one video after another, each to its end."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._rest: Iterator[np.ndarray] = iter(())

    def take(self, path: Path, count: int) -> np.ndarray:
        """The next ones. Raises ValueError if a video has more or less."""
        if self._path != path:
            self.end()
            self._path, self._rest = path, read_video(path)
        shown = [*islice(self._rest, count)]
        if len(shown) < count:
            raise ValueError(f"{path} is too short")
        return np.stack(shown)

    def end(self) -> None:
        """Raises ValueError for a picture that is in no episode."""
        if next(self._rest, None) is not None:
            raise ValueError(f"{self._path} is too long")


def read_info(folder: Path) -> dict[str, Any]:
    """What a data set says of itself. Raises ValueError if it is no JSON."""
    return strict_json((folder / "meta/info.json").read_text(encoding="utf-8"))


def demonstration_of(
    table: Any,
    info: dict[str, Any],
    sentences: Mapping[int, str],
    depth: np.ndarray | None,
    facts: dict[str, Any],
    length: int,
) -> Demonstration:
    """An episode of its table, checked.

    Args:
        sentences: of the data set, by number.
        length: the steps that the data set tells.

    Raises ValueError and others for what is damaged.
    """
    check_count("length", length, len(table))
    columns = {key: values(table, key) for key in table.column_names}
    if not np.array_equal(columns["frame_index"], np.arange(len(table))):
        raise ValueError("frame_index must count from 0")
    names = {key: feature["names"] for key, feature in info["features"].items()}
    steps = [sentences[index] for index in columns["task_index"].tolist()]
    return frames.demonstration_of(columns, names, steps, depth, facts)


def write_piece(
    demonstration: Demonstration,
    path: Path,
    camera_feature: Callable[[int, int], dict[str, Any]],
    camera_stats: Callable[[np.ndarray], Stats],
    is_full_range: bool = False,
) -> None:
    """An episode's table with its note, and its video beside it: the table last.

    Args:
        camera_feature, camera_stats: what a version of the format tells of the camera.
        is_full_range: see `write_video`.
    """
    import pyarrow.parquet as pq

    path = path.absolute()  # `take:1/0.parquet` is an address, for pyarrow and for ffmpeg
    columns, names = frames.columns_of(demonstration)
    features = frames.features_of(columns, names)
    stats = {key: vector_stats(columns[key]) for key in frames.MEASURED if key in columns}
    if demonstration.depth is not None:
        codes = demonstration.depth[:-1]
        height, width = codes.shape[1:]
        features[frames.CAMERA] = camera_feature(height, width)
        stats[frames.CAMERA] = camera_stats(codes)
    note = {"facts": demonstration.facts, "features": features, "stats": listed(stats)}
    table = _table(columns | {STEPS: np.array(demonstration.steps, object)})
    table = table.replace_schema_metadata({NOTE: json.dumps(note).encode()})
    with ExitStack() as both:  # in place once both are whole: of one drive
        temporary = both.enter_context(atomic_path(path))
        if demonstration.depth is not None:
            video = both.enter_context(atomic_path(video_of(path)))
            write_video(demonstration.depth[:-1], video, is_full_range)
        pq.write_table(table, temporary)


def _table(columns: dict[str, np.ndarray]) -> Any:
    """Vectors as lists of fixed size, texts as texts."""
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if values.dtype == object:
            arrays[name] = pa.array(values.tolist(), pa.string())
        elif values.ndim == 1:
            arrays[name] = pa.array(values)
        else:
            arrays[name] = pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])
    return pa.table(arrays)


def values(table: Any, name: str) -> np.ndarray:
    """The counterpart of `_table`, of a column."""
    column = table.column(name).combine_chunks()
    if hasattr(column.type, "list_size"):
        return column.flatten().to_numpy().reshape(len(column), -1)
    return column.to_numpy(zero_copy_only=False)
