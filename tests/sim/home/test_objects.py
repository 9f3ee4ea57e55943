"""Objects: YCB's sizes and masses, inertia of their solids, the model they are written into."""

import copy
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.apartment import ApartmentWriter
from rearrange.sim.home.house import floor_plan
from rearrange.sim.home.objects import (
    HAB2_KINDS,
    KINDS,
    NUM_SLOTS,
    YCB_KINDS,
    ObjectKind,
    object_kind,
)
from rearrange.sim.homes.layout import layout_ids, make_layout
from rearrange.sim.model import build_spec, object_body
from rearrange.sim.pictures.pictures import FreeCamera, Painter
from rearrange.sim.robot import fetch
from rearrange.sim.robot.depth import DepthCamera
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.sim.simulation import Simulation

# YCB's published masses (kg) and calliper sizes (mm): diameter x height, or the three edges sorted.
# Fruit longer than wide counts with its mean diameter.
YCB = {
    "002_master_chef_can": (0.414, (102, 139)),
    "003_cracker_box": (0.411, (60, 158, 210)),
    "004_sugar_box": (0.514, (38, 89, 175)),
    "005_tomato_soup_can": (0.349, (66, 101)),
    "007_tuna_fish_can": (0.171, (85, 33)),
    "008_pudding_box": (0.187, (35, 89, 110)),
    "009_gelatin_box": (0.097, (28, 73, 85)),
    "010_potted_meat_can": (0.370, (50, 82, 97)),
    "011_banana": (0.066, (36, 36, 190)),
    "012_strawberry": (0.018, ((44 + 55) / 2,)),
    "013_apple": (0.068, (75,)),
    "014_lemon": (0.029, ((54 + 68) / 2,)),
    "015_peach": (0.033, (59,)),
    "016_pear": (0.049, ((66 + 66 + 100) / 3,)),
    "017_orange": (0.047, (73,)),
    "018_plum": (0.025, (52,)),
    "021_bleach_cleanser": (1.131, (65, 98, 250)),
    "024_bowl": (0.147, (159, 53)),
    "025_mug": (0.118, (80, 82)),
    "026_sponge": (0.0062, (14, 72, 114)),
}


@pytest.fixture(scope="module")
def written():
    """A fresh model with an apartment and every kind written into it, and the kinds by slot."""
    model = build_spec().compile()
    writer = ApartmentWriter(model)
    writer.write_layout(make_layout("v3_sc4_staging_07"))
    slots = {name: slot for slot, name in enumerate(KINDS)}
    for slot in slots.values():
        writer.write_object(slot, KINDS["013_apple"])  # nothing of it may be left
    for name, slot in slots.items():
        writer.write_object(slot, KINDS[name])
    return model, slots


@pytest.fixture(scope="module")
def compiled(written):
    """The same world, every object compiled as what it is."""
    spec = build_spec()
    for name, slot in written[1].items():
        kind = KINDS[name]
        geom = spec.body(object_body(slot)).geoms[0]
        geom.type = getattr(mujoco.mjtGeom, f"mjGEOM_{kind.shape.upper()}")
        geom.size, geom.mass = kind.size, kind.mass
        geom.condim = 4 if kind.shape == "box" else 6
        geom.rgba[:3] = kind.rgb
    found = spec.compile()
    ApartmentWriter(found).write_layout(make_layout("v3_sc4_staging_07"))
    return found


@pytest.mark.parametrize("name", YCB)
def test_mass_and_size_are_ycbs(name):
    mass, size = YCB[name]
    kind = KINDS[name]
    assert kind.mass == mass
    full = 2000 * np.array(kind.size)  # mm
    if kind.shape == "box":
        assert sorted(full) == pytest.approx(size)
    else:
        assert full[: len(size)] == pytest.approx(size, abs=3.0)


def test_hab_uses_its_nine_kinds():
    assert len(set(HAB2_KINDS)) == 9 and set(HAB2_KINDS) < set(YCB_KINDS)
    assert set(YCB) == set(YCB_KINDS) == set(KINDS) and len(YCB_KINDS) == 20


@pytest.mark.parametrize("name", KINDS)
def test_inertia_is_that_of_random_points_inside_the_solid(name):
    """Uniform density, by 200,000 points: closed forms within 1%."""
    kind, rng = KINDS[name], np.random.default_rng(0)
    points = rng.uniform(-1, 1, (200_000, 3))
    a, b, c = kind.size
    if kind.shape == "box":
        points *= (a, b, c)
    elif kind.shape == "cylinder":
        points = points[(points[:, :2] ** 2).sum(1) <= 1] * (a, a, b)
    else:
        points = points[(points**2).sum(1) <= 1] * a
    squares = (points**2).mean(axis=0)
    expected = kind.mass * (squares.sum() - squares)
    assert kind.inertia() == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", KINDS)
def test_mass_and_inertia_are_what_mujoco_compiles(name):
    kind = KINDS[name]
    size = " ".join(str(v) for v in kind.size)
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody><body><freejoint/><geom type='{kind.shape}' size='{size}' "
        f"mass='{kind.mass}'/></body></worldbody></mujoco>"
    )
    frame = np.empty(9)
    mujoco.mju_quat2Mat(frame, model.body_iquat[1])
    turn = frame.reshape(3, 3)  # MuJoCo sorts the axes of inertia
    compiled = turn @ np.diag(model.body_inertia[1]) @ turn.T
    assert np.diag(kind.inertia()) == pytest.approx(compiled, abs=1e-9)


def test_what_is_written_is_what_mujoco_would_derive(written):
    """Constants of the model that follow from sizes, masses and places, against `mj_setConst`."""
    model, slots = written
    derived = copy.deepcopy(model)
    data = mujoco.MjData(derived)
    mujoco.mj_setConst(derived, data)
    bodies = [model.body(object_body(slot)).id for slot in slots.values()]
    dofs = [int(model.body_dofadr[body]) + i for body in bodies for i in range(6)]
    assert model.body_subtreemass[bodies] == pytest.approx(derived.body_subtreemass[bodies])
    assert model.body_invweight0[bodies] == pytest.approx(derived.body_invweight0[bodies], rel=1e-6)
    assert model.dof_invweight0[dofs] == pytest.approx(derived.dof_invweight0[dofs], rel=1e-6)
    assert model.dof_M0[dofs] == pytest.approx(derived.dof_M0[dofs], rel=1e-6)


def test_geoms_are_what_mujoco_compiles(written, compiled):
    """All that collision, broad phase and cameras read of an object: shape, bounds, contacts."""
    model, slots = written
    names = [object_body(slot) for slot in slots.values()]
    geoms = [int(model.body(name).geomadr[0]) for name in names]
    nodes = [int(model.body_bvhadr[model.body(name).id]) for name in names]
    fields = [name for name in dir(model) if name.startswith("geom_")]
    assert {"geom_type", "geom_condim", "geom_rbound", "geom_aabb", "geom_size"} <= set(fields)
    for field in fields:
        ours, expected = getattr(model, field), getattr(compiled, field)
        assert ours[geoms] == pytest.approx(expected[geoms], abs=1e-12), field
    assert model.bvh_aabb[nodes] == pytest.approx(compiled.bvh_aabb[nodes])


def test_bounding_volumes_of_walls_are_what_mujoco_compiles(written):
    model, spec = written[0], build_spec()
    walls = [model.body(f"wall_{i:02d}") for i in range(12)]
    geoms = [int(wall.geomadr[0]) for wall in walls]
    nodes = [int(model.body_bvhadr[wall.id]) for wall in walls]
    for wall, geom in zip(walls, geoms, strict=True):
        spec.body(wall.name).geoms[0].size = model.geom_size[geom]
    expected = spec.compile()
    assert model.geom_rbound[geoms] == pytest.approx(expected.geom_rbound[geoms])
    assert model.geom_aabb[geoms] == pytest.approx(expected.geom_aabb[geoms])
    assert model.bvh_aabb[nodes] == pytest.approx(expected.bvh_aabb[nodes])


def tumble(model, slots):
    """All kinds fall onto a table and on each other, tilted; positions [steps, slots, 3].

    Returns them, the contacts at each step, and the end.
    """
    data = mujoco.MjData(model)
    home = make_layout("v3_sc4_staging_07")
    x, y, yaw = home.pieces["table_01"]
    floor = floor_plan(home, {}).free_centres
    robot = floor[np.argmax(np.hypot(*(floor - (x, y)).T))]  # out of the way, and of the walls
    base = int(model.joint("base_x").qposadr[0])
    data.qpos[base : base + 2] = robot
    rng = np.random.default_rng(6)
    for slot in slots.values():
        address = int(model.joint(object_body(slot)).qposadr[0])
        away = rng.uniform(-0.3, 0.3, 2)
        quat = rng.normal(size=4)
        data.qpos[address : address + 3] = (x + away[0], y + away[1], 0.9 + 0.12 * slot)
        data.qpos[address + 3 : address + 7] = quat / np.linalg.norm(quat)
    bodies = [model.body(object_body(slot)).id for slot in slots.values()]
    path, contacts = [], []
    for _ in range(240):
        mujoco.mj_step(model, data)
        path.append(data.xpos[bodies].copy())
        contacts.append(data.ncon)
    return np.array(path), contacts, data


def test_slots_of_any_shape_move_as_if_compiled_so(written, compiled):
    """Two seconds of twenty objects that fall on each other: the same contacts and motion."""
    ours, contacts, _ = tumble(*written)
    expected, others, _ = tumble(compiled, written[1])
    # Piles are chaotic: what differs in the last digits (a box's axes of inertia are sorted by the
    # compiler) decides between contacts after 43 to 83 steps, by the draw; after 83 in this one.
    assert sum(contacts[:60]) > 100 and contacts[:60] == others[:60]
    assert np.abs(ours - expected)[:60].max() < 1e-9


def test_slots_of_any_shape_look_as_if_compiled_so(written, compiled):
    model, slots = written
    _, _, data = tumble(model, slots)
    other = mujoco.MjData(compiled)
    other.qpos[:] = data.qpos
    x, y, _ = make_layout("v3_sc4_staging_07").pieces["table_01"]
    base = int(model.joint("base_x").qposadr[0])  # where the robot's camera sees the table
    data.qpos[base : base + 3] = other.qpos[base : base + 3] = (x - 1.2, y, 0.0)
    mujoco.mj_forward(model, data)
    mujoco.mj_forward(compiled, other)
    ours = DepthCamera(model).render(data)
    assert (ours == DepthCamera(compiled).render(other)).all()
    eye = FreeCamera((x, y, 0.8), distance=2.0)
    assert (Painter(model).render(data, eye) == Painter(compiled).render(other, eye)).all()


def test_too_many_objects_are_refused(sim, make_scene, on_table):
    with pytest.raises(UserError, match="at most 36 objects, got 37"):
        sim.reset(make_scene(*[on_table("018_plum")] * (NUM_SLOTS + 1)))


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match="must be one of 002_master_chef_can, .*, got 'spoon'"):
        object_kind("spoon")


def test_unused_slots_wait_below_the_floor(sim, make_scene, on_table):
    sim.reset(make_scene(on_table("013_apple")))
    heights = [float(sim.data.body(object_body(slot)).xpos[2]) for slot in range(NUM_SLOTS)]
    assert sum(height > -5 for height in heights) == 1


def test_each_kind_stands_where_it_is_put(sim, make_scene, on_table, run, wake):
    """All awake, two seconds: rolls nowhere, sinks less than a millimetre."""
    for name in KINDS:
        sim.reset(make_scene(on_table(name)))
        start = sim.object_pos_w(0)
        wake()
        run(60)
        assert np.abs(sim.object_pos_w(0) - start).max() < 0.002, name


def test_what_is_round_rolls_on_its_side_and_comes_to_rest(sim, make_scene, run):
    """From 0.2 m/s within v^2 / (2 a), a = 2/3 mu_r g / r of a solid cylinder: 4 to 12 cm."""
    lying = (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)  # its axis along y
    for name in (name for name, kind in KINDS.items() if kind.shape != "box"):
        radius = KINDS[name].size[0]
        placed = ObjectPlacement(name, (4.5, 3.5, radius), lying)
        sim.reset(replace(make_scene(), objects=(placed,)))
        dof = sim.model.body_dofadr[sim.model.geom_bodyid[sim.object_geom(0)]]
        sim.data.qvel[dof], sim.data.qvel[dof + 4] = 0.2, 0.2 / radius
        run(60)
        rolled = sim.object_pos_w(0)[0] - 4.5
        assert 0.005 < rolled < 0.13, name
        assert np.abs(sim.data.qvel[dof : dof + 6]).max() < 1e-3, name


def test_a_kind_of_ones_own_lies_about_like_any_other(monkeypatch):
    monkeypatch.setattr(KINDS, "_entries", dict(KINDS._entries))
    KINDS.add("brick", ObjectKind("brick", "box", (0.12, 0.06, 0.035), 3.1, (0.6, 0.2, 0.1)))
    apartment = layout_ids("train")[0]
    brick = ObjectPlacement("brick", (4.5, 3.5, 0.035), (1.0, 0.0, 0.0, 0.0))
    sim = Simulation()
    sim.reset(Scene(apartment, (brick,), (1.0, 3.5, 0.0), tuple(fetch.ARM_START), {}))
    body = sim.model.geom_bodyid[sim.object_geom(0)]
    assert sim.model.body_mass[body] == pytest.approx(3.1)
    assert tuple(sim.model.geom_size[sim.object_geom(0)]) == pytest.approx((0.12, 0.06, 0.035))
    with pytest.raises(UserError, match="the object kind 'brick' exists already"):
        KINDS.add("brick", KINDS["025_mug"])
