"""What is told to lie still does, by the physics that time would show; all else is left to time."""

import numpy as np
import pytest

from rearrange.sim import simulation
from rearrange.sim.home.objects import KINDS
from rearrange.sim.homes.layout import make_layout
from rearrange.tasks.episodes.generate import generate_episode

STEPS = 15  # control steps, half a second
TOLERANCE = 0.01  # m
BOX = "003_cracker_box"


@pytest.fixture
def settle(sim, monkeypatch):
    """Whether a scene is told to be at rest, and how far anything moves in time all the same, m."""

    def measure(scene):
        told = []

        def without_a_word(*arguments):
            told.append(real(*arguments))
            return False

        real = simulation.all_rest
        with monkeypatch.context() as patch:
            patch.setattr(simulation, "all_rest", without_a_word)
            sim.reset(scene)
            moved = sim.drift(STEPS)
        return told[0], moved

    return measure


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_thing_on_the_table_is_told_to_rest(settle, make_scene, on_table, kind):
    is_told, moved = settle(make_scene(on_table(kind)))
    assert is_told and moved < 0.001


@pytest.mark.parametrize("beyond", [-0.06, -0.02, -0.005, 0.005, 0.02])
def test_nothing_that_tips_over_the_edge_is_told_to_rest(settle, make_scene, beyond):
    table = next(r for r in make_layout("v3_sc0_staging_00").receptacles if r.piece == "table_01")
    x, y, z = table.pos
    along = table.half[0] + beyond
    x, y = x + np.cos(table.yaw) * along, y + np.sin(table.yaw) * along
    is_told, moved = settle(make_scene((BOX, (x, y, z + KINDS[BOX].half_height))))
    assert is_told == (beyond < 0.0)
    assert (moved < 0.001) if beyond < 0.0 else (moved > TOLERANCE)


def test_what_is_dropped_pushed_or_stacked_is_left_to_time(settle, make_scene, on_table):
    kind, (x, y, z) = on_table(BOX)
    above = z + 2 * KINDS[BOX].half_height
    for places in (
        [(x, y, z + 0.05)],
        [(x, y, z), (x + 0.01, y, z)],
        [(x, y, z), (x, y, above)],
    ):
        assert not settle(make_scene(*((kind, place) for place in places)))[0]


def test_the_same_episodes_pass_as_in_time(settle):
    told = 0
    for index in range(12):
        for homes in ("hab", "procedural"):
            scene = generate_episode("rearrange_easy", "train", 11, index, homes=homes).scene
            is_told, moved = settle(scene)
            told += is_told
            assert moved < (0.001 if is_told else TOLERANCE)
    assert told > 12  # most are told: that is what it is for
