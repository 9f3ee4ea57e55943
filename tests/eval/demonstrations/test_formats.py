"""Each format gives back what it was given, to the bit, and others' loaders find it."""

import json
from dataclasses import fields

import numpy as np
import pytest

from rearrange.eval.demonstrations.demonstration import Demonstration, to_codes, to_depth
from rearrange.eval.demonstrations.formats import FORMATS
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
        rows = len(before) + (name != "lerobot")
        assert {k: v[:rows].tolist() for k, v in before.observations.items()} == {
            k: v.tolist() for k, v in now.observations.items()
        }
        assert np.array_equal(before.depth[:rows], now.depth)
        assert before.worlds[:rows].tolist() == now.worlds.tolist()
        assert before.rewards.astype(now.rewards.dtype).tolist() == now.rewards.tolist()
        compared = {"observations", "depth", "worlds", "rewards"}
        for field in {field.name for field in fields(Demonstration)} - compared:
            assert np.array_equal(getattr(before, field), getattr(now, field)), field


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
