"""LeRobot's data sets: an episode's piece, and reading a data set again. Which files they have and
what is in them say `lerobot_assembly` and `lerobot_frames`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.eval.demonstrations import lerobot_frames as frames
from rearrange.eval.demonstrations.demonstration import Demonstration
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
from rearrange.system.outputs import atomic_path


class LeRobotFormat:
    """The folder of a `LeRobotDataset`."""

    suffix = ".parquet"
    needs = {"pyarrow": "pyarrow", "av": "av"}
    made = ("data", "videos", "meta")

    def write_piece(self, demonstration: Demonstration, path: Path) -> None:
        """One episode's table, and its video beside it: the table last."""
        write_piece(demonstration, path, frames.camera_feature, depth_stats)

    def assemble(self, pieces: Sequence[Path], folder: Path) -> None:
        """Makes the data set of the pieces, in their order."""
        Assembly(folder, pieces).run()

    def read(self, folder: Path) -> Iterator[Demonstration]:
        """The episodes in their order. Raises OSError, ValueError and KeyError for what is damaged.

        Observations have a row less than the environment gave: the last one is in no frame.
        """
        import pyarrow.parquet as pq

        features = json.loads((folder / "meta/info.json").read_text())["features"]
        names = {key: feature["names"] for key, feature in features.items()}
        sentences = pq.read_table(folder / TASKS).column("task").to_pylist()
        pictures: tuple[Path, Iterator[np.ndarray]] | None = None
        for row in pq.read_table(folder / EPISODES).to_pylist():
            path = folder / DATA.format(
                chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
            )
            table = pq.read_table(path, filters=[("episode_index", "=", row["episode_index"])])
            columns = {key: values(table, key) for key in table.column_names}
            depth = None
            if frames.CAMERA in features:
                path = folder / VIDEO.format(
                    video_key=frames.CAMERA,
                    chunk_index=row[f"videos/{frames.CAMERA}/chunk_index"],
                    file_index=row[f"videos/{frames.CAMERA}/file_index"],
                )
                if pictures is None or pictures[0] != path:
                    pictures = path, read_video(path)
                shown = [*islice(pictures[1], row["length"])]
                if len(shown) < row["length"]:
                    raise ValueError(f"{path} is too short")
                depth = np.stack(shown)
            steps = [sentences[index] for index in columns["task_index"]]
            yield frames.demonstration_of(columns, names, steps, depth, json.loads(row["facts"]))


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

    columns, names = frames.columns_of(demonstration)
    features = frames.features_of(columns, names)
    stats = {key: vector_stats(columns[key]) for key in frames.MEASURED if key in columns}
    if demonstration.depth is not None:
        codes = demonstration.depth[:-1]
        height, width = codes.shape[1:]
        features[frames.CAMERA] = camera_feature(height, width)
        stats[frames.CAMERA] = camera_stats(codes)
        with atomic_path(video_of(path)) as temporary:
            write_video(codes, temporary, is_full_range)
    note = {"facts": demonstration.facts, "features": features, "stats": listed(stats)}
    table = _table(columns | {STEPS: np.array(demonstration.steps, object)})
    table = table.replace_schema_metadata({NOTE: json.dumps(note).encode()})
    with atomic_path(path) as temporary:
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
