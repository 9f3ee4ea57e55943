"""Makes `player` and `browser` importable, and a page without a browser."""

import sys
from pathlib import Path

import pytest

from rearrange.configs.schema import TaskCfg
from rearrange.configs.viewing import ViewCfg
from rearrange.eval.view.session import Session

sys.path.insert(0, str(Path(__file__).parent))

from player import EPISODE  # noqa: E402


class Page:
    """Keys that are held, and nothing else."""

    held_keys: frozenset[str] = frozenset()

    def take(self):
        return []


@pytest.fixture(scope="session")
def made():
    """One session for all: (session, page)."""
    page = Page()
    cfg = ViewCfg(task=TaskCfg(name="pick", title="Pick"), index=EPISODE)
    return Session(cfg, page), page


@pytest.fixture
def page(made):
    return made[1]


@pytest.fixture
def session(made):
    """At the start of `EPISODE`, a person at the keys."""
    session, page = made
    page.held_keys = frozenset()
    session.is_paused = False
    session.stage.driver = "you"
    session.begin(EPISODE)
    return session
