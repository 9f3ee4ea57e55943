"""Places at walls, against the same search in plain Python."""

import numpy as np
import pytest

from rearrange.sim.homes.rectangles import hits, holds, moved, place_at_wall, rows_of, turned

INSIDE, HALF, GAP, WALL_GAP, TRIES = (50, 50, 4000, 3000), (300, 500), 30, (20, 60), 30
BODY, FRONT = (-300, -500, 340, 500), (300, -500, 1000, 500)


def random_rects(rng, count):
    corners = rng.integers(0, 3000, (count, 2))
    sizes = rng.integers(50, 700, (count, 2))
    return [tuple(int(v) for v in row) for row in np.concatenate([corners, corners + sizes], 1)]


def search(rng, quarter, has_front, taken, kept):
    x0, y0, x1, y1 = INSIDE
    for _ in range(TRIES):
        q = int(rng.integers(4)) if quarter < 0 else quarter
        off = HALF[0] + 20 + 10 * int(rng.integers(5))
        low, high = (y0, y1) if q % 2 == 0 else (x0, x1)
        low, high = low + HALF[1] + 20, high - HALF[1] - 20
        if high < low:
            continue
        along = low + 10 * int(rng.integers((high - low) // 10 + 1))
        if rng.integers(100) < 35:
            along = (low, high)[int(rng.integers(2))]
        x, y = ((x0 + off, along), (along, y0 + off), (x1 - off, along), (along, y1 - off))[q]
        own, zone = moved(turned(BODY, q), x, y), moved(turned(FRONT, q), x, y)
        if not holds(INSIDE, own) or hits(own, taken, GAP) or hits(own, kept):
            continue
        if not has_front or (holds(INSIDE, zone) and not hits(zone, taken)):
            return q, x, y
    return -1, 0, 0


@pytest.mark.parametrize("has_front", [True, False])
@pytest.mark.parametrize("quarter", [-1, 0, 1, 2, 3])
def test_the_search_draws_and_finds_what_plain_python_does(quarter, has_front):
    shapes = np.array([[turned(rect, q) for q in range(4)] for rect in (BODY, FRONT)])
    found = []
    for seed in range(60):
        scene = np.random.default_rng([seed, 1])
        taken, kept = random_rects(scene, seed % 30), random_rects(scene, seed % 5)
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        place = place_at_wall(
            rng, quarter, np.array(INSIDE), shapes, has_front, HALF, WALL_GAP,
            rows_of(taken), rows_of(kept), GAP, TRIES,
        )  # fmt: skip
        assert place == search(other, quarter, has_front, taken, kept)
        assert rng.bit_generator.state == other.bit_generator.state
        found.append(place[0] >= 0)
    assert any(found) and not all(found)
