"""Assembles a LeRobot dataset, format v3.0, with pyarrow and PyAV.

    meta/info.json                                 features, counts, where files are
    meta/stats.json                                for normalisation
    meta/tasks.parquet                             sentence -> task_index
    meta/episodes/chunk-000/file-000.parquet       a row an episode: where its frames are, its facts
    data/chunk-000/file-000.parquet                a row a frame, a row group an episode
    videos/observation.images.head_depth/chunk-000/file-000.mp4

A frame's task is the step of the plan in words. Files are split at the sizes that info.json tells.
The format is LeRobot's (huggingface/lerobot, Apache 2.0): docs of LeRobotDataset v3.0, and what its
release 0.6.1 loads. Depth as 12-bit video is of 0.6; older ones read it as a grey picture.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.eval.demonstrations import lerobot_frames as frames
from rearrange.eval.demonstrations.demonstration import FPS
from rearrange.eval.demonstrations.depth_video import join_videos
from rearrange.eval.demonstrations.lerobot_stats import Stats, joined_stats, listed, vector_stats

DATA_MB, VIDEO_MB = 100, 200
CHUNK_FILES = 1000
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES, TASKS = "meta/episodes/chunk-000/file-000.parquet", "meta/tasks.parquet"
STEPS = "step"  # a piece's column of sentences, which become task indices
NOTE = b"rearrange"  # in the metadata of a piece's table


class Assembly:
    """One data set in the making.

    Args:
        folder: an empty one.
        pieces: tables of `lerobot.LeRobotFormat.write_piece`, one at least.
    """

    def __init__(self, folder: Path, pieces: Sequence[Path]) -> None:
        self._folder, self._pieces = folder, pieces
        self._tasks: dict[str, int] = {}
        self._rows: list[dict[str, Any]] = []
        self._stats: list[dict[str, Stats]] = []
        self._features: dict[str, Any] = {}
        self._num_frames = 0

    def run(self) -> None:
        """Writes all of it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in (DATA, EPISODES):
            self._place(name, 0).parent.mkdir(parents=True, exist_ok=True)
        writer, number, size = None, -1, 0
        for piece in self._pieces:
            table = pq.read_table(piece)
            table, note = numbered(table, self._tasks, len(self._rows), self._num_frames)
            if writer is None or size + table.nbytes > DATA_MB * 2**20:
                if writer is not None:
                    writer.close()
                number, size = number + 1, 0
                writer = pq.ParquetWriter(self._place(DATA, number), table.schema)
            writer.write_table(table)
            size += table.nbytes
            self._note_episode(note, len(table), number)
        assert writer is not None, "a data set has an episode at least"
        writer.close()
        if frames.CAMERA in self._features:
            self._join_videos()
        pq.write_table(pa.Table.from_pylist(self._rows), self._folder / EPISODES)
        self._write_tasks()
        self._write_json("meta/stats.json", self._all_stats())
        self._write_json("meta/info.json", self._info())

    def _note_episode(self, note: dict[str, Any], length: int, number: int) -> None:
        facts, first = note["facts"], self._num_frames
        row = {
            "episode_index": len(self._rows),
            "tasks": note["tasks"],
            "length": length,
            "data/chunk_index": number // CHUNK_FILES,
            "data/file_index": number % CHUNK_FILES,
            "dataset_from_index": first,
            "dataset_to_index": first + length,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
            **{name: value for name, value in facts.items() if name != "environment"},
            "facts": json.dumps(facts),
        }
        for key, stats in note["stats"].items():
            row |= {f"stats/{key}/{name}": values for name, values in stats.items()}
        self._rows.append(row)
        self._stats.append({k: {n: np.array(v) for n, v in s.items()}
                            for k, s in note["stats"].items()})  # fmt: skip
        self._features = note["features"]
        self._num_frames += length

    def _join_videos(self) -> None:
        """As few files as the largest size lets be; tells the rows where their frames are."""
        key, most = f"videos/{frames.CAMERA}", VIDEO_MB * 2**20
        groups: list[list[int]] = []
        size = 0
        for index, piece in enumerate(self._pieces):
            more = video_of(piece).stat().st_size
            if not groups or size + more > most:
                groups.append([])
                size = 0
            groups[-1].append(index)
            size += more
        for number, group in enumerate(groups):
            lengths = [self._rows[index]["length"] for index in group]
            path = self._place(VIDEO, number, video_key=frames.CAMERA)
            path.parent.mkdir(parents=True, exist_ok=True)
            join_videos([video_of(self._pieces[index]) for index in group], lengths, path)
            begin = 0
            for index, length in zip(group, lengths, strict=True):
                self._rows[index] |= {
                    f"{key}/chunk_index": number // CHUNK_FILES,
                    f"{key}/file_index": number % CHUNK_FILES,
                    f"{key}/from_timestamp": begin / FPS,
                    f"{key}/to_timestamp": (begin + length) / FPS,
                }
                begin += length

    def _write_tasks(self) -> None:
        """With the note by which pandas takes the sentences for the index of the table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        def column(name: str | None, kind: str, numpy_kind: str) -> dict[str, Any]:
            return {
                "name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_kind,
                "metadata": None,
            }  # fmt: skip

        note = {
            "index_columns": ["task"],
            "column_indexes": [column(None, "unicode", "object")],
            "columns": [
                column("task_index", "int64", "int64"), column("task", "unicode", "object")
            ],
            "pandas_version": "2.2.3",
        }  # fmt: skip
        columns = {"task_index": [*self._tasks.values()], "task": [*self._tasks]}
        table = pa.table(columns).replace_schema_metadata({b"pandas": json.dumps(note).encode()})
        pq.write_table(table, self._folder / TASKS)

    def _all_stats(self) -> dict[str, Any]:
        keys = self._stats[0]
        return listed({key: joined_stats([stats[key] for stats in self._stats]) for key in keys})

    def _info(self) -> dict[str, Any]:
        count = len(self._rows)
        return {
            "codebase_version": "v3.0",
            "robot_type": "fetch",
            "fps": FPS,
            "total_episodes": count,
            "total_frames": self._num_frames,
            "total_tasks": len(self._tasks),
            "chunks_size": CHUNK_FILES,
            "data_files_size_in_mb": DATA_MB,
            "video_files_size_in_mb": VIDEO_MB,
            "splits": {"train": f"0:{count}"},
            "data_path": DATA,
            "video_path": VIDEO if frames.CAMERA in self._features else None,
            "features": self._features,
        }

    def _place(self, pattern: str, number: int, **names: str) -> Path:
        chunk, file = divmod(number, CHUNK_FILES)
        return self._folder / pattern.format(chunk_index=chunk, file_index=file, **names)

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=4, allow_nan=False)
        (self._folder / name).write_text(text + "\n", encoding="utf-8")


def numbered(
    table: Any, tasks: dict[str, int], episode: int, first: int
) -> tuple[Any, dict[str, Any]]:
    """A piece's table as it will be, and its note.

    Args:
        tasks: sentences and their numbers so far; gets those of this piece.
        episode: its number.
        first: its first frame's number in the data set.
    """
    note = json.loads(table.schema.metadata[NOTE])
    steps = table.column(STEPS).to_pylist()
    size = len(table)
    numbers = {
        "episode_index": np.full(size, episode),
        "index": np.arange(first, first + size),
        "task_index": np.array([tasks.setdefault(step, len(tasks)) for step in steps]),
    }
    note["tasks"] = list(dict.fromkeys(steps))
    table = table.drop_columns([STEPS]).replace_schema_metadata(None)
    for name, values in numbers.items():
        table = table.append_column(name, [values])
    note["stats"] |= listed({name: vector_stats(numbers[name]) for name in numbers})
    return table, note


def video_of(piece: Path) -> Path:
    """The video beside an episode's table."""
    return piece.with_suffix(".mp4")
