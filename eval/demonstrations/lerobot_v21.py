"""LeRobot's data set format, v2.1, which its releases up to 0.3.3 read.

    meta/info.json                                 features, counts, where files are
    meta/tasks.jsonl                               {"task_index": 0, "task": sentence}
    meta/episodes.jsonl                            an episode's tasks and length, and its facts
    meta/episodes_stats.jsonl                      its statistics, for normalisation
    data/chunk-000/episode_000000.parquet          a row a frame
    videos/chunk-000/observation.images.head_depth/episode_000000.mp4

An episode has files of its own, its columns are those of v3.0 (`lerobot_frames`). v2.1 knows no
depth: its readers make a picture of three grey channels of 8 bits of the same lossless video, 0 to
10 m as 0 to 1, and that is what features and statistics tell. The format is LeRobot's
(huggingface/lerobot, Apache 2.0): what its release 0.3.3 loads.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.eval.demonstrations import lerobot_frames as frames
from rearrange.eval.demonstrations.demonstration import FPS, Demonstration, check_count
from rearrange.eval.demonstrations.depth_video import PIXELS, read_video
from rearrange.eval.demonstrations.lerobot import demonstration_of, read_info, write_piece
from rearrange.eval.demonstrations.lerobot_assembly import numbered, video_of
from rearrange.eval.demonstrations.lerobot_stats import grey_stats
from rearrange.system.checked_json import strict_json

CHUNK_EPISODES = 1000
DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
INFO, TASKS = "meta/info.json", "meta/tasks.jsonl"
EPISODES, STATS = "meta/episodes.jsonl", "meta/episodes_stats.jsonl"
STATISTICS = ("min", "max", "mean", "std", "count")


class LeRobot21Format:
    """The folder of a `LeRobotDataset` of then."""

    suffix = ".parquet"
    needs = {"pyarrow": "pyarrow", "av": "av"}
    has_all_pictures = False
    made = ("data", "videos", "meta")

    def write_piece(self, demonstration: Demonstration, path: Path) -> None:
        """One episode's table, and its video beside it: the table last."""
        write_piece(demonstration, path, _camera_feature, grey_stats, is_full_range=True)

    def assemble(self, pieces: Sequence[Path], folder: Path) -> None:
        """Makes the data set of the pieces, in their order."""
        import pyarrow.parquet as pq

        folder = folder.absolute()
        (folder / "meta").mkdir(parents=True)
        tasks: dict[str, int] = {}
        episodes: list[dict[str, Any]] = []
        stats: list[dict[str, Any]] = []
        features: dict[str, Any] = {}
        first = 0
        for number, piece in enumerate(pieces):
            table, note = numbered(pq.read_table(piece.absolute()), tasks, number, first)
            target = _place(folder, DATA, number)
            pq.write_table(table, target)
            if frames.CAMERA in note["features"]:
                shutil.copyfile(video_of(piece), _place(folder, VIDEO, number))
            row = {"episode_index": number, "tasks": note["tasks"], "length": len(table)}
            episodes.append(row | {"facts": note["facts"]})
            own = {
                key: {name: found[name] for name in STATISTICS}
                for key, found in note["stats"].items()
            }
            stats.append({"episode_index": number, "stats": own})
            features, first = note["features"], first + len(table)
        _write_lines(folder / EPISODES, episodes)
        _write_lines(folder / STATS, stats)
        named = [{"task_index": number, "task": sentence} for sentence, number in tasks.items()]
        _write_lines(folder / TASKS, named)
        info = _info(features, len(pieces), first, len(tasks))
        (folder / INFO).write_text(json.dumps(info, indent=4) + "\n", encoding="utf-8")

    def read(self, folder: Path) -> Iterator[Demonstration]:
        """The episodes in their order. Raises ValueError and others for what is damaged.

        Observations have a row less than the environment gave: the last one is in no frame.
        """
        import pyarrow.parquet as pq

        folder = folder.absolute()
        info, rows, num_frames = read_info(folder), _lines(folder / EPISODES), 0
        sentences = {row["task_index"]: row["task"] for row in _lines(folder / TASKS)}
        check_count("total_episodes", info["total_episodes"], len(rows))
        for number, row in enumerate(rows):
            length = row["length"]
            check_count("episode_index", row["episode_index"], number)
            table = pq.read_table(folder / _name(DATA, number))
            depth = None
            if frames.CAMERA in info["features"]:
                path = folder / _name(VIDEO, number)
                depth = np.stack([*islice(read_video(path), length + 1)])
                if len(depth) != length:
                    raise ValueError(f"{path} must have {length} pictures, it has others")
            yield demonstration_of(table, info, sentences, depth, row["facts"], length)
            num_frames += length
        check_count("total_frames", info["total_frames"], num_frames)


def _camera_feature(height: int, width: int) -> dict[str, Any]:
    info = {
        "video.height": height, "video.width": width, "video.codec": "hevc",
        "video.pix_fmt": PIXELS, "video.fps": FPS, "video.channels": 1,
        "video.is_depth_map": True, "has_audio": False,
    }  # fmt: skip
    names = ["height", "width", "channels"]
    return {"dtype": "video", "shape": [height, width, 3], "names": names, "info": info}


def _info(features: dict[str, Any], count: int, num_frames: int, num_tasks: int) -> dict[str, Any]:
    has_video = frames.CAMERA in features
    return {
        "codebase_version": "v2.1",
        "robot_type": "fetch",
        "total_episodes": count,
        "total_frames": num_frames,
        "total_tasks": num_tasks,
        "total_videos": count if has_video else 0,
        "total_chunks": -(-count // CHUNK_EPISODES),
        "chunks_size": CHUNK_EPISODES,
        "fps": FPS,
        "splits": {"train": f"0:{count}"},
        "data_path": DATA,
        "video_path": VIDEO if has_video else None,
        "features": features,
    }


def _name(pattern: str, number: int) -> str:
    chunk = number // CHUNK_EPISODES
    return pattern.format(episode_chunk=chunk, episode_index=number, video_key=frames.CAMERA)


def _place(folder: Path, pattern: str, number: int) -> Path:
    path = folder / _name(pattern, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [strict_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
