"""Another Python that answers as Habitat's would."""

import sys

import pytest

from rearrange.eval.habitat import client
from rearrange.habitat.dataset import export


@pytest.fixture
def hand_made(monkeypatch):
    """The interpreter whose habitat-lab is `fake_serving`."""
    monkeypatch.setattr(client, "_SERVING", "tests.eval.habitat.fake_serving")
    found = {"habitat-sim": "0.3.3", "habitat-lab": "0.3.320260507"}
    monkeypatch.setattr(client, "describe", lambda python, timeout_s: dict(found))
    client.versions_of.cache_clear()
    yield sys.executable
    client.versions_of.cache_clear()


@pytest.fixture(scope="session")
def exported_pick(tmp_path_factory):
    """A folder with four episodes of Pick."""
    folder = tmp_path_factory.mktemp("habitat") / "pick"
    export(folder, "val", ["pick"], 4)
    return folder
