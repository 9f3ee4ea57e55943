"""Each format gives back what it was given, to the bit, and others' loaders find it."""

import json
import resource
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.eval.demonstrations.demonstration import Demonstration, to_codes, to_depth
from rearrange.eval.demonstrations.formats import FORMATS
from rearrange.eval.demonstrations.hdf5 import minari_id
from rearrange.eval.demonstrations.lerobot_stats import depth_stats, joined_stats, vector_stats

for package in ("av", "h5py", "minari", "pyarrow"):
    pytest.importorskip(package)

RNG = np.random.default_rng(3)
ENVIRONMENT = {"task": "pick", "split": "train", "seed": 0, "camera_size": 32}


def made_up(number, length, size=32):
    """Numbers without a meaning, so that none can stand for another."""
    return Demonstration(
        facts={
            "task": "pick", "instruction": "Pick", "agent": "oracle", "split": "train", "seed": 0,
            "index": number, "scene": "a", "success": True, "result": "success",
            "environment": ENVIRONMENT,
        },
        observations={
            "joint": RNG.normal(size=(length + 1, 7)).astype(np.float32),
            "obj_start_sensor": RNG.normal(size=(length + 1, 3)).astype(np.float32),
            "is_holding": RNG.integers(0, 2, (length + 1, 1)).astype(np.float32),
        },
        depth=RNG.integers(0, 4096, (length + 1, size, size)).astype(np.uint16),
        actions=RNG.uniform(-1, 1, (length, 11)).astype(np.float32),
        rewards=RNG.normal(size=length),
        terminated=np.arange(length) == length - 1,
        truncated=np.zeros(length, bool),
        success=np.arange(length) >= length - 2,
        motor_leads=RNG.choice([0.0, 0.1], length),
        worlds=RNG.integers(-(2**63), 2**63, length + 1),
        skills=["navigate"] * 2 + ["pick"] * (length - 2),
        steps=["go to the mug"] * 2 + [f"pick up the mug {number}"] * (length - 2),
    )  # fmt: skip


@pytest.fixture(scope="module")
def two():
    return [made_up(0, 5), made_up(1, 4)]


def written(name, demonstrations, folder):
    form = FORMATS[name]
    paths = [folder / f"{i}{form.suffix}" for i in range(len(demonstrations))]
    for demonstration, path in zip(demonstrations, paths, strict=True):
        form.write_piece(demonstration, path)
    (made := folder / "made").mkdir()
    form.assemble(paths, made)
    assert {path.name for path in made.iterdir()} == {*form.made}
    return made


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_written_is_read_again(name, two, tmp_path):
    again = [*FORMATS[name].read(written(name, two, tmp_path))]
    for before, now in zip(two, again, strict=True):
        # A row of LeRobot's is a step: no row has what the last action led to.
        rows = len(before) + (not name.startswith("lerobot"))
        assert {k: v[:rows].tolist() for k, v in before.observations.items()} == {
            k: v.tolist() for k, v in now.observations.items()
        }
        assert np.array_equal(before.depth[:rows], now.depth)
        assert before.worlds[:rows].tolist() == now.worlds.tolist()
        assert before.rewards.astype(now.rewards.dtype).tolist() == now.rewards.tolist()
        compared = {"observations", "depth", "worlds", "rewards"}
        for field in {field.name for field in fields(Demonstration)} - compared:
            assert np.array_equal(getattr(before, field), getattr(now, field)), field


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_may_be_relative_and_begin_with_a_colon(name, two, tmp_path, monkeypatch):
    """Which libraries take for a folder within itself, and for a protocol."""
    monkeypatch.chdir(tmp_path)
    (folder := Path("pick:v1")).mkdir()
    made = written(name, two, folder)
    assert len([*FORMATS[name].read(made)]) == 2


@pytest.mark.parametrize(
    ("name", "agent", "made"),
    [
        ("tidy-v0", "oracle", "tidy-v0"),
        ("mine", "you+oracle", "pick-you-oracle-v0"),
        ("mine", "my.code:Agent", "pick-my-code-Agent-v0"),
    ],
)
def test_minari_gets_an_id_that_it_takes(name, agent, made):
    from minari.dataset.minari_dataset import parse_dataset_id

    assert minari_id(name, {"task": "pick", "agent": agent}) == made
    assert parse_dataset_id(made)[2] == 0


def test_minari_loads_it(two, tmp_path):
    from minari import MinariDataset

    dataset = MinariDataset(written("minari", two, tmp_path) / "data")
    assert (dataset.total_episodes, dataset.total_steps) == (2, 9)
    for before, now in zip(two, dataset, strict=True):
        assert np.array_equal(now.actions, before.actions)
        assert np.array_equal(to_codes(now.observations["head_depth"][..., 0]), before.depth)
        assert dataset.observation_space["head_depth"].contains(now.observations["head_depth"][0])
    assert dataset.recover_environment().observation_space == dataset.observation_space


def test_a_lerobot_folder_is_as_its_info_says(two, tmp_path):
    import av
    import pyarrow.parquet as pq

    made = written("lerobot", two, tmp_path)
    info = json.loads((made / "meta/info.json").read_text())
    frames = pq.read_table(made / info["data_path"].format(chunk_index=0, file_index=0))
    assert set(info["features"]) == {*frames.column_names, "observation.images.head_depth"}
    assert info["features"]["observation.state"]["shape"] == [8]
    episodes = pq.read_table(made / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    sentences = pq.read_table(made / "meta/tasks.parquet").column("task").to_pylist()
    for row, one in zip(episodes, two, strict=True):
        own = frames.slice(row["dataset_from_index"], row["length"]).to_pydict()
        assert own["index"] == [*range(row["dataset_from_index"], row["dataset_to_index"])]
        assert [sentences[i] for i in own["task_index"]] == one.steps
        assert row["tasks"] == [*dict.fromkeys(one.steps)]
        assert own["frame_index"] == [*range(len(one))]
    key = "videos/observation.images.head_depth"
    path = info["video_path"].format(
        video_key="observation.images.head_depth", chunk_index=0, file_index=0
    )
    with av.open(str(made / path)) as video:
        shown = {round(30 * frame.time): frame.to_ndarray() for frame in video.decode(video=0)}
    for row, one in zip(episodes, two, strict=True):
        first = round(30 * row[f"{key}/from_timestamp"])
        for number in range(row["length"]):
            assert np.array_equal(shown[first + number], one.depth[number])


def test_a_lerobot_v21_folder_is_as_its_schema_says(two, tmp_path):
    """What LeRobot 0.3.3 looks for, file by file, and its pictures as it decodes them."""
    import av
    import pyarrow.parquet as pq

    made, key = written("lerobot-v2.1", two, tmp_path), "observation.images.head_depth"
    info = json.loads((made / "meta/info.json").read_text())
    assert info["codebase_version"] == "v2.1"
    counts = {"episodes": 2, "frames": 9, "videos": 2, "chunks": 1, "tasks": 3}
    assert {name: info[f"total_{name}"] for name in counts} == counts
    lines = {
        name: [json.loads(line) for line in (made / f"meta/{name}.jsonl").read_text().splitlines()]
        for name in ("tasks", "episodes", "episodes_stats")
    }
    sentences = {row["task_index"]: row["task"] for row in lines["tasks"]}
    for number, one in enumerate(two):
        where = {"episode_chunk": 0, "episode_index": number}
        table = pq.read_table(made / info["data_path"].format(**where)).to_pydict()
        assert {*table} | {key} == {*info["features"]}
        assert [sentences[index] for index in table["task_index"]] == one.steps
        assert table["index"] == [5 * number + i for i in range(len(one))]
        row, stats = lines["episodes"][number], lines["episodes_stats"][number]
        assert (row["episode_index"], row["length"]) == (number, len(one))
        assert row["tasks"] == [*dict.fromkeys(one.steps)]
        path = made / info["video_path"].format(**where, video_key=key)
        assert path.parent.relative_to(made).as_posix() == f"videos/chunk-000/{key}"
        with av.open(str(path)) as video:
            shown = np.stack([f.to_ndarray(format="rgb24") for f in video.decode(video=0)])
        assert list(shown.shape[1:]) == info["features"][key]["shape"]
        expected = one.depth[:-1, :, :, None] / 4095
        assert np.abs(shown / 255 - expected).max() < 2.1 / 255  # of 8 bits
        kept = stats["stats"][key]
        assert np.array(kept["mean"]).shape == (3, 1, 1) and kept["count"] == [len(one)]
        assert np.allclose(kept["mean"], expected.mean()) and np.allclose(
            kept["max"], expected.max()
        )


@pytest.mark.parametrize("name", ["lerobot", "lerobot-v2.1"])
def test_a_piece_is_of_one_episode_though_the_disk_is_full(name, two, tmp_path, monkeypatch):
    """Written again, it is the old one whole if the new one cannot be: video and table."""
    import pyarrow.parquet as pq

    form, path = FORMATS[name], tmp_path / f"0{FORMATS[name].suffix}"
    form.write_piece(two[0], path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        with pytest.raises(UserError, match="No space left"):
            form.write_piece(two[1], path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    form.write_piece(two[1], path)
    assert all(file.read_bytes() != before[file] for file in tmp_path.iterdir())


def test_a_code_of_depth_comes_back_and_is_near():
    codes = np.arange(4096, dtype=np.uint16)
    assert np.array_equal(to_codes(to_depth(codes)), codes)
    depth = RNG.uniform(0, 1, 10_000).astype(np.float32)
    assert np.abs(to_depth(to_codes(depth)) - depth).max() <= 0.5 / 4095 + 1e-7


def test_statistics_of_parts_are_those_of_the_whole():
    parts = [RNG.normal(2.0, 3.0, (n, 4)) for n in (7, 20, 3)]
    joined = joined_stats([vector_stats(part) for part in parts])
    whole = np.concatenate(parts)
    for name in ("min", "max", "mean", "std"):
        assert np.allclose(joined[name], getattr(whole, name)(0))
    codes = RNG.integers(100, 4000, (5, 8, 8)).astype(np.uint16)
    metres = codes * 10.0 / 4095
    for name in ("min", "max", "mean", "std"):
        assert depth_stats(codes)[name].item() == pytest.approx(getattr(metres, name)())
    assert depth_stats(codes)["q50"].item() == pytest.approx(np.median(metres), abs=0.03)


@pytest.mark.parametrize("name", ["hdf5", "minari"])
def test_where_a_file_may_not_be_that_large_one_line_says_so(name, two, tmp_path):
    form = FORMATS[name]
    pieces = [tmp_path / f"{number}{form.suffix}" for number in range(2)]
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, unlimited[1]))
        with pytest.raises(UserError, match=r"cannot write .*0\.hdf5: File too large"):
            form.write_piece(two[0], pieces[0])
        assert not list(tmp_path.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        for one, piece in zip(two, pieces, strict=True):
            form.write_piece(one, piece)
        (made := tmp_path / "made").mkdir()
        both = sum(piece.stat().st_size for piece in pieces)
        resource.setrlimit(resource.RLIMIT_FSIZE, (both - 1, unlimited[1]))
        with pytest.raises(OSError, match="File too large"):
            form.assemble(pieces, made)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
