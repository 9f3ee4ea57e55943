"""Four episodes of different tasks, as the program has them and as they are in a file."""

import gzip
import json

import pytest

from rearrange.tasks.episodes.files import (
    write_episodes,
)
from rearrange.tasks.episodes.generate import generate_episode


@pytest.fixture(scope="module")
def episodes():
    return (
        generate_episode("rearrange_easy", "val", 0, 0),
        generate_episode("set_table", "test", 3, 1),
        generate_episode("place", "train", 0, 2),
        generate_episode("close_fridge", "val", 0, 3),
    )


@pytest.fixture(scope="module")
def content(episodes, tmp_path_factory):
    """The decoded JSON of the four episodes; tests change copies."""
    path = tmp_path_factory.mktemp("content") / "e.json.gz"
    write_episodes(path, episodes)
    return json.loads(gzip.decompress(path.read_bytes()))
