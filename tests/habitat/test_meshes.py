"""What is written as GLB is, read by trimesh, what collides in MuJoCo."""

from importlib.util import find_spec

import numpy as np
import pytest

from rearrange.habitat.glb import glb_bytes
from rearrange.habitat.solids import (
    Solid,
    box,
    capsule,
    cylinder,
    inside_out,
    solid_of_kind,
    sphere,
    turned_along,
)
from rearrange.sim.home.objects import KINDS
from tests.habitat.conftest import HOME, geom_corners, read_json, z_up

# Looked for only: each of the suite's processes imports this file, one of them runs it.
pytestmark = pytest.mark.skipif(
    find_spec("trimesh") is None, reason="trimesh, of the extra dev, is not installed"
)


def loaded(path):
    import trimesh

    return trimesh.load(path, file_type="glb")


def is_convex(mesh):
    """No vertex lies before the plane of a triangle."""
    corners = mesh.vertices[mesh.faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    heights = across @ mesh.vertices.T - np.sum(across * corners[:, 0], axis=1)[:, None]
    return heights.max() < 1e-6


def is_closed(mesh):
    """Every edge between two points is walked once in each direction."""
    _, points = np.unique(mesh.vertices.round(7), axis=0, return_inverse=True)
    faces = points.ravel()[mesh.faces]
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    there = {tuple(edge) for edge in edges.tolist()}
    return len(there) == len(edges) and there == {(b, a) for a, b in there}


def placed(scene_object, mesh):
    """World corners, z up, of a mesh that a scene_instance.json places."""
    from trimesh import transformations

    x, y, z = scene_object["translation"]
    turn = transformations.quaternion_matrix(scene_object["rotation"])
    turn[:3, 3] = x, y, z
    return z_up(transformations.transform_points(mesh.vertices, turn))


def test_furniture_stands_where_mujoco_has_it(exported, home):
    _, model, data = home
    replica = exported / "data/replica_cad"
    scene = read_json(replica / f"configs/scenes/{HOME}.scene_instance.json")
    names = {"rearrange_counter_body": "counter", "rearrange_fridge_body": "fridge"}
    handles = {"frl_apartment_table_01": "table_01", "frl_apartment_table_02": "table_02",
               "frl_apartment_tvstand": "tvstand", "frl_apartment_sofa": "sofa",
               "frl_apartment_chair_01": "chair_0"}  # fmt: skip
    seen = set()
    for instance in scene["object_instances"]:
        template = instance["template_name"]
        if "floor" in template:
            continue
        piece = (names | handles).get(template, template.removeprefix("rearrange_"))
        seen.add(piece)
        config = read_json(replica / f"configs/objects/{template}.object_config.json")
        parts = loaded((replica / "configs/objects" / config["render_asset"]).resolve()).geometry
        assert instance["motion_type"] == "STATIC"
        for name, mesh in parts.items():
            own = placed(instance, mesh)
            theirs = geom_corners(model, data, f"{piece}_{int(name[5:]):02d}")
            np.testing.assert_allclose(own.min(axis=0), theirs.min(axis=0), atol=1e-5)
            np.testing.assert_allclose(own.max(axis=0), theirs.max(axis=0), atol=1e-5)
            assert is_convex(mesh)
    assert len(seen) == 14


def test_stage_has_the_walls_and_a_ceiling_that_is_not_drawn(exported, home):
    layout, model, data = home
    replica = exported / "data/replica_cad"
    scene = read_json(replica / f"configs/scenes/{HOME}.scene_instance.json")
    name = scene["stage_instance"]["template_name"]
    config = read_json(replica / f"configs/stages/{name}.stage_config.json")
    drawn = loaded((replica / "configs/stages" / config["render_asset"]).resolve()).geometry
    solid = loaded((replica / "configs/stages" / config["collision_asset"]).resolve()).geometry
    ground, *walls = drawn.values()
    assert z_up(ground.vertices)[:, 2].max() < -0.05  # hidden in the floor
    assert len(walls) == len(layout.walls)
    for i, wall in enumerate(walls):
        theirs = geom_corners(model, data, f"wall_{i:02d}")
        np.testing.assert_allclose(z_up(wall.vertices).min(axis=0), theirs.min(axis=0), atol=1e-5)
        np.testing.assert_allclose(z_up(wall.vertices).max(axis=0), theirs.max(axis=0), atol=1e-5)
    (ceiling,) = [m for m in solid.values() if z_up(m.vertices)[:, 2].min() > 2.0]
    assert len(solid) == len(drawn) + 1
    x0, y0, x1, y1 = layout.bounds
    low, high = z_up(ceiling.vertices).min(axis=0), z_up(ceiling.vertices).max(axis=0)
    assert low[0] <= x0 and low[1] <= y0 and high[0] >= x1 and high[1] >= y1


def test_the_floor_is_a_solid_whose_top_the_robot_drives_on(exported, home):
    layout, _, _ = home
    replica = exported / "data/replica_cad"
    scene = read_json(replica / f"configs/scenes/{HOME}.scene_instance.json")
    (floor,) = [o for o in scene["object_instances"] if "floor" in o["template_name"]]
    path = replica / f"configs/objects/{floor['template_name']}.object_config.json"
    config = read_json(path)
    assert config["is_collidable"] and not config["join_collision_meshes"]
    (mesh,) = loaded((path.parent / config["collision_asset"]).resolve()).geometry.values()
    corners = placed(floor, mesh)
    low, high = corners.min(axis=0), corners.max(axis=0)
    x0, y0, x1, y1 = layout.bounds
    assert low[0] <= x0 and low[1] <= y0 and high[0] >= x1 and high[1] >= y1
    # A navmesh's heights are whole cells of 0.2 m (habitat-sim's NavMeshSettings) above the lowest
    # point, rounded up: that of the floor must be the floor's.
    assert high[2] == 0.0 and 0.0 < low[2] + 0.2 * np.ceil(-low[2] / 0.2) < 0.002
    assert is_convex(mesh) and is_closed(mesh)


def test_a_capsule_lies_between_its_points_and_is_seen_from_within(tmp_path):
    start, end, radius = np.array([0.1, 0.2, 0.3]), np.array([0.4, -0.2, 0.3]), 0.05
    solid = turned_along(capsule(radius, 0.25, (1.0, 0.0, 0.0)), start, end)
    path = tmp_path / "it.glb"
    path.write_bytes(glb_bytes([solid]))
    (mesh,) = loaded(path).geometry.values()
    assert is_convex(mesh) and is_closed(mesh)
    corners = z_up(mesh.vertices)
    t = np.clip((corners - start) @ (end - start) / 0.25, 0.0, 1.0)  # |end - start|^2 is 0.25
    away = np.linalg.norm(corners - start - t[:, None] * (end - start), axis=1)
    np.testing.assert_allclose(away, radius, atol=1e-6)
    ends = (corners - start) @ (end - start) / 0.5
    assert ends.min() == pytest.approx(-radius, abs=1e-6)
    assert ends.max() == pytest.approx(0.5 + radius, abs=1e-6)
    path.write_bytes(glb_bytes([inside_out(solid)]))
    (inner,) = loaded(path).geometry.values()
    assert is_closed(inner) and inner.volume == pytest.approx(-mesh.volume)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_loose_objects_have_their_size_and_point_outwards(kind, tmp_path):
    path = tmp_path / "it.glb"
    path.write_bytes(glb_bytes([solid_of_kind(kind)]))
    (mesh,) = loaded(path).geometry.values()
    a, b, c = kind.size
    half, volume = {
        "box": ((a, b, c), 8 * a * b * c),
        "cylinder": ((a, a, b), np.pi * a * a * 2 * b),
        "sphere": ((a, a, a), 4 / 3 * np.pi * a**3),
    }[kind.shape]
    np.testing.assert_allclose(z_up(mesh.vertices).max(axis=0), half, atol=1e-6)
    np.testing.assert_allclose(z_up(mesh.vertices).min(axis=0), np.negative(half), atol=1e-6)
    corners = mesh.vertices[mesh.faces]
    found = np.linalg.det(corners).sum() / 6
    assert found == pytest.approx(volume, rel=0.02)  # positive: triangles face outwards
    assert is_closed(mesh) and is_convex(mesh)


def test_normals_are_those_of_the_faces():
    for solid in (box((1, 2, 3), (0.1, 0.2, 0.3), (1, 0, 0)), cylinder(0.2, 0.3, (1, 0, 0)),
                  sphere(0.5, (1, 0, 0))):  # fmt: skip
        corners = solid.vertices[solid.triangles]
        faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        faces /= np.linalg.norm(faces, axis=1, keepdims=True)
        cosines = np.einsum("tk,tvk->tv", faces, solid.normals[solid.triangles])
        assert cosines.min() > 0.95  # a vertex of the sphere stands for its neighbours' mean


def test_colours_are_kept(tmp_path):
    path = tmp_path / "it.glb"
    half = (0.1, 0.1, 0.1)
    path.write_bytes(glb_bytes([box((0, 0, 0), half, (1, 0, 0)), box((1, 0, 0), half, (0, 0, 1))]))
    first, second = loaded(path).geometry.values()
    assert list(first.visual.material.baseColorFactor) == [255, 0, 0, 255]
    assert list(second.visual.material.baseColorFactor) == [0, 0, 255, 255]


def test_a_solid_of_too_many_vertices_is_refused():
    many = np.zeros((70_000, 3))
    with pytest.raises(ValueError, match="65536"):
        glb_bytes([Solid(many, many, np.zeros((1, 3), int), (1, 0, 0))])
