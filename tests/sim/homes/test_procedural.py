"""Procedural homes: the same on every machine, whole walls, wide doors, everything in reach.

Floor and walls are looked at here by flood fill over points of a grid, without the project's own
navigation.
"""

import hashlib

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.apartment import ApartmentWriter
from rearrange.sim.home import furniture as fur
from rearrange.sim.homes.layout import HOMES, homes_of, layout_ids, make_layout
from rearrange.sim.homes.procedural import NUM_HOMES, home_ids, make_home, search_home
from rearrange.sim.model import build_spec
from rearrange.tasks.episodes.generate import first_home, generate_episode
from rearrange.tasks.episodes.schema import episode_from_json, episode_to_json
from rearrange.tasks.registry import make_env

SAMPLE = [f"procedural_train_{i:04d}" for i in range(0, 1000, 125)] + ["procedural_val_0007"]
RADIUS = 0.3  # m, Fetch's base: habitat-lab's cylinder (hab-spec 1.3)
STEP = 0.04  # m


@pytest.fixture(scope="module", params=SAMPLE)
def home(request):
    return make_home(request.param)


def numbers(home) -> str:
    """Poses in mm and degrees, walls and boxes in tenths of a mm."""
    rows = [sorted(home.furnished.poses.items()), home.plan.walls, home.plan.doorways]
    for name, piece in sorted(home.layout.shapes.items()):
        boxes = [round(1e4 * v) for box in piece.boxes for v in (*box.pos, *box.half)]
        rows.append((name, boxes, [surface.name for surface in piece.surfaces]))
    rows.append([(r.name, len(home.spots[r.name])) for r in home.layout.receptacles])
    return repr(rows)


def test_homes_are_the_same_everywhere():
    found = "".join(numbers(make_home(name)) for name in SAMPLE)
    assert hashlib.sha256(found.encode()).hexdigest()[:16] == "761d4b58dff862c4"


def test_what_is_known_of_a_home_is_what_a_search_finds():
    for name in SAMPLE[::3]:
        assert numbers(search_home(name)) == numbers(make_home(name))


def test_splits_have_their_numbers_and_share_no_home():
    names = [name for split in NUM_HOMES for name in home_ids(split)]
    assert len(names) == len(set(names)) == 1200
    assert layout_ids("test", "procedural") == home_ids("test")
    some = [numbers(make_home(f"procedural_{split}_0003")) for split in NUM_HOMES]
    assert len(set(some)) == 3


def grid(home):
    """Points of the floor [ny, nx, 2] and how far each is from walls and from all else, m."""
    x0, y0, x1, y1 = home.layout.bounds
    xs, ys = np.arange(x0 + 0.01, x1, STEP), np.arange(y0 + 0.01, y1, STEP)
    points = np.stack(np.meshgrid(xs, ys), axis=-1)

    def distance(rows):
        best = np.full(points.shape[:2], 9.0)
        for x, y, hx, hy, yaw in rows:
            offset = points - (x, y)
            c, s = np.cos(yaw), np.sin(yaw)
            dx = np.maximum(abs(c * offset[..., 0] + s * offset[..., 1]) - hx, 0)
            dy = np.maximum(abs(c * offset[..., 1] - s * offset[..., 0]) - hy, 0)
            best = np.minimum(best, np.hypot(dx, dy))
        return best

    layout = home.layout
    pieces = []
    for name, (x, y, yaw) in layout.pieces.items():
        hx, hy = layout.shapes[name].half
        pieces.append((x, y, hx, hy, yaw))
    return points, distance(layout.walls), distance(pieces)


def filled(free, start):
    """Which free points hang together with a start (row, column)."""
    seen = np.zeros_like(free)
    seen[start] = free[start]
    while True:
        more = seen.copy()
        more[1:] |= seen[:-1]
        more[:-1] |= seen[1:]
        more[:, 1:] |= seen[:, :-1]
        more[:, :-1] |= seen[:, 1:]
        more &= free
        if (more == seen).all():
            return seen
        seen = more


def test_rooms_are_closed_but_for_doorways_that_the_base_fits_through(home):
    points, to_wall, _ = grid(home)
    free = to_wall > 0
    for door in home.plan.doorways:
        assert door.width / 1000 >= 2 * RADIUS + 0.3
        low, high = door.start / 1000, (door.start + door.width) / 1000
        along, across = (1, 0) if door.is_upright else (0, 1)
        in_door = abs(points[..., across] - door.at / 1000) < 0.05 + 1e-6
        in_door &= (points[..., along] > low - 1e-6) & (points[..., along] < high + 1e-6)
        inside = (points[..., along] > low + 0.005) & (points[..., along] < high - 0.005)
        assert free[in_door & inside].all()  # no wall stands in it
        free &= ~in_door
    for room in home.plan.rooms:
        x0, y0, x1, y1 = (v / 1000 for v in room.rect)
        middle = (int((y0 + y1) / 2 / STEP), int((x0 + x1) / 2 / STEP))
        there = points[filled(free, middle)]
        assert len(there) > 0.7 * (x1 - x0) * (y1 - y0) / STEP**2
        assert (there >= (x0, y0)).all() and (there <= (x1, y1)).all()


def test_every_receptacle_is_reached_from_one_floor(home):
    points, to_wall, to_piece = grid(home)
    free = np.minimum(to_wall, to_piece) >= RADIUS
    fridge = next(r for r in home.layout.receptacles if r.kind == "fridge")
    x, y = fur.piece_to_world((*fridge.pos[:2], fridge.yaw), 1.2, 0.0)
    floor = points[filled(free, (int(y / STEP), int(x / STEP)))]
    assert len(floor) > 0.5 * free.sum()
    names = set()
    for r in home.layout.receptacles:
        ahead = r.half[0] if r.kind == "open" else 0.9
        spots = [
            fur.piece_to_world((*r.pos[:2], r.yaw), dx, dy)
            for dx in (-r.half[0] + 0.09, 0.0, r.half[0] - 0.09 if r.kind == "open" else ahead)
            for dy in np.linspace(-1, 1, 7) * max(r.half[1] - 0.09, 0)
        ]
        nearest = min(np.hypot(*(floor - spot).T).min() for spot in spots)
        assert nearest < 0.72, (home.layout.id, r.name)
        names.add(r.name)
    hab = {s.name for piece in fur.PIECES.values() for s in piece.surfaces if s.kind == "open"}
    assert hab <= names and len(names) == len(home.layout.receptacles)


def test_what_is_written_is_what_mujoco_derives_and_hab_comes_back():
    model, fresh = build_spec().compile(), build_spec().compile()
    writer = ApartmentWriter(model)
    hab = make_layout("v3_sc1_staging_03")
    ApartmentWriter(fresh).write_layout(hab)
    for name in ("procedural_train_0000", "procedural_train_0125"):
        writer.write_layout(make_layout(name))
    derived = ("dof_M0", "dof_invweight0", "body_invweight0", "body_subtreemass")
    written = {name: getattr(model, name).copy() for name in derived}
    other = build_spec().compile()
    ApartmentWriter(other).write_layout(make_layout("procedural_train_0125"))
    mujoco.mj_setConst(other, mujoco.MjData(other))
    for name in derived:
        assert getattr(other, name) == pytest.approx(written[name], rel=1e-6, abs=1e-12)
    for body in range(model.nbody):  # the root of a body's tree holds its boxes, and no more
        first, count = model.body_geomadr[body], model.body_geomnum[body]
        if count < 2 or not (model.geom_type[first : first + count] == 6).all():
            continue
        if not np.allclose(model.body_iquat[body], (1, 0, 0, 0)):
            continue
        if not np.allclose(model.geom_quat[first : first + count], (1, 0, 0, 0)):
            continue
        centres = model.geom_pos[first : first + count] - model.body_ipos[body]
        half = model.geom_size[first : first + count]
        low, high = (centres - half).min(axis=0), (centres + half).max(axis=0)
        root = model.bvh_aabb[model.body_bvhadr[body]]
        assert root[:3] == pytest.approx((low + high) / 2, abs=1e-9)
        assert root[3:] == pytest.approx((high - low) / 2, abs=1e-9)
    writer.write_layout(hab)
    for name in dir(fresh):
        value = getattr(fresh, name)
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, getattr(model, name)), name


def test_environments_take_homes_by_keyword_and_hab_stays_the_default():
    env = make_env("pick", "val", 0, depth=False, homes="procedural")
    _, info = env.reset(options={"index": 0})
    assert info["scene"] in home_ids("val")
    spec = env.episode
    assert spec == generate_episode("pick", "val", 0, 0, homes="procedural")
    assert episode_from_json(episode_to_json(spec), "") == spec
    assert generate_episode("pick", "val", 0, 0).scene.layout_id.startswith("v3_")
    assert env._max_steps == 300  # Habitat-lab's
    limits = [make_env("set_table", homes=homes, depth=False)._max_steps for homes in HOMES]
    assert limits == [4500, 6750, 6750]  # ways between rooms are longer
    with pytest.raises(UserError, match="homes must be one of hab, procedural"):
        make_env("pick", homes="castle")


def test_mixed_homes_are_of_either_set_half_the_time():
    names = [first_home("pick", "train", 0, index, homes="mixed") for index in range(400)]
    share = sum(homes_of(name) == "hab" for name in names) / len(names)
    assert 0.4 < share < 0.6  # 4 standard deviations
    assert len(set(names)) > 200
    env = make_env("pick", "val", 0, depth=False, homes="mixed")
    scenes = [env.reset(options={"index": index})[1]["scene"] for index in range(8)]
    assert {homes_of(scene) for scene in scenes} == {"hab", "procedural"}


def test_a_fridge_hinged_on_the_right_opens_to_the_right():
    names = [f"procedural_train_{i:04d}" for i in range(20)]
    sides = {make_layout(name).fridge.side: name for name in names}
    assert set(sides) == {1.0, -1.0}
    env = make_env("open_fridge", "train", 0, depth=False, homes="procedural")
    env.reset(options={"index": 0})
    sim = env.sim
    for side, name in sides.items():
        layout = make_layout(name)
        scene = env.episode.scene
        sim.reset(type(scene)(name, (), (-3.0, -3.0, 0.0), scene.arm, {"fridge_top_door": 1.5}))
        pose = layout.pieces["fridge"]
        x, y, _ = sim.marker_pos_w("fridge_push_point")
        dx, dy = x - pose[0], y - pose[1]
        c, s = np.cos(pose[2]), np.sin(pose[2])
        ahead, aside = c * dx + s * dy, c * dy - s * dx
        assert ahead > 0.32 + 0.8 * layout.fridge.handle_r
        assert aside * side > layout.fridge.half[1] - 0.05
