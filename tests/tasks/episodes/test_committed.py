"""The episodes that lie in the package are those that the generator gives."""

import gzip
import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from rearrange.errors import UserError
from rearrange.tasks.episodes import files as episode_files
from rearrange.tasks.episodes.files import (
    COMMITTED_COUNT,
    COMMITTED_SPLITS,
    COMMITTED_TASKS,
    build_committed_sets,
    committed_path,
    load_episode,
    read_episodes,
    write_episodes,
)
from rearrange.tasks.episodes.generate import generate_episode


def test_an_episode_not_committed_is_generated():
    assert load_episode("pick", "train", 5, 7) == generate_episode("pick", "train", 5, 7)
    assert load_episode("set_table", "val", 0, 5000) == generate_episode(
        "set_table", "val", 0, 5000
    )


def test_an_episode_committed_comes_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(episode_files, "_FOLDER", tmp_path)
    episode_files._committed.cache_clear()
    kept = replace(generate_episode("set_table", "val", 0, 2), index=1)  # not what is generated now
    write_episodes(committed_path("set_table", "val"), [kept])
    assert load_episode("set_table", "val", 0, 1) == kept
    assert load_episode("set_table", "val", 0, 0) == generate_episode("set_table", "val", 0, 0)
    assert load_episode("set_table", "val", 1, 1) != kept
    episode_files._committed.cache_clear()


def test_a_committed_file_of_another_task_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(episode_files, "_FOLDER", tmp_path)
    episode_files._committed.cache_clear()
    write_episodes(committed_path("tidy_house", "val"), [generate_episode("pick", "val", 0, 0)])
    with pytest.raises(UserError, match="must be of tidy_house val seed 0"):
        load_episode("tidy_house", "val", 0, 0)
    episode_files._committed.cache_clear()


def test_a_damaged_committed_episode_is_refused_when_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(episode_files, "_FOLDER", tmp_path)
    episode_files._committed.cache_clear()
    path = committed_path("set_table", "val")
    write_episodes(path, [generate_episode("set_table", "val", 0, i) for i in range(3)])
    content = json.loads(gzip.decompress(path.read_bytes()))
    content["episodes"][1]["start_position"] = [0.0, 0.0, 99.0]
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    for _ in range(2):
        with pytest.raises(UserError, match="episode 1: start_position must lie in the apartment"):
            load_episode("set_table", "val", 0, 1)
    assert load_episode("set_table", "val", 0, 2) == generate_episode("set_table", "val", 0, 2)
    content["episodes"][1] = content["episodes"][0]
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    episode_files._committed.cache_clear()
    with pytest.raises(UserError, match="episode 1: index must be new, got 0 again"):
        load_episode("set_table", "val", 0, 2)
    episode_files._committed.cache_clear()


def test_varied_starts_are_a_stream_of_their_own_in_all_of_their_indices():
    for index in (0, COMMITTED_COUNT):  # the first is committed for the benchmark's starts
        varied = load_episode("set_table", "val", 0, index, starts="varied")
        assert varied == generate_episode("set_table", "val", 0, index, starts="varied")
        assert varied != load_episode("set_table", "val", 0, index)


def test_threads_get_the_same_committed_episodes():
    episode_files._committed.cache_clear()
    wanted = [i % 5 for i in range(40)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: load_episode("tidy_house", "test", 0, i), wanted))
    episodes = read_episodes(committed_path("tidy_house", "test"))
    assert found == [episodes[i] for i in wanted]


def test_building_writes_a_file_for_each_set(tmp_path):
    paths = build_committed_sets(tmp_path, count=1)
    assert len(paths) == len(COMMITTED_TASKS) * len(COMMITTED_SPLITS)
    for path in paths:
        (spec,) = read_episodes(path)
        assert path == tmp_path / spec.split / f"{spec.task}.json.gz"


def difference(a, b) -> float:
    """Largest difference of two episodes' numbers; infinite if anything else differs."""
    if isinstance(a, (int, float)) and not isinstance(a, bool):
        return abs(a - b)
    if isinstance(a, (tuple, list)):
        pairs = zip(a, b, strict=True) if len(a) == len(b) else [(None, 1)]
        return max((difference(x, y) for x, y in pairs), default=0.0)
    if isinstance(a, dict):
        return difference(sorted(a.items()), sorted(b.items()))
    if hasattr(a, "__dataclass_fields__"):
        return max(difference(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)
    return 0.0 if a == b else math.inf


@pytest.mark.parametrize("split", COMMITTED_SPLITS)
@pytest.mark.parametrize("task", COMMITTED_TASKS)
def test_committed_episodes_are_what_the_generator_gives(task, split):
    path = committed_path(task, split)
    assert path.is_file(), "run python -m rearrange.tasks.episodes.files --write"
    episodes = read_episodes(path)
    assert [spec.index for spec in episodes] == list(range(COMMITTED_COUNT))
    for index in (0, 17, 58, 99):
        assert difference(episodes[index], generate_episode(task, split, 0, index)) < 1e-9


def test_committed_files_stay_small():
    folder = committed_path("tidy_house", "val").parent.parent
    assert sum(path.stat().st_size for path in folder.rglob("*.gz")) < 3_000_000
