"""Triangles show what the same body as a primitive shows; textures lie where they should."""

import mujoco
import numpy as np
import pytest

from rearrange.sim.pictures.paint_libraries import egl_works
from rearrange.sim.pictures.pictures import FreeCamera, Painter
from rearrange.sim.pictures.triangle_kernel import draw_triangles
from rearrange.sim.pictures.triangles import Mesh, Part, Solids, Visuals
from rearrange.sim.robot.depth import DepthCamera, fill_view, padded
from rearrange.sim.robot.depth_kernel import VIEW_SIZE

ROOM = """
<mujoco><worldbody>
  <camera name="head" pos="-2 0 1" xyaxes="0 -1 0 0.4 0 1" fovy="60"/>
  <geom name="floor" type="plane" size="0 0 1" rgba="0.7 0.7 0.7 1"/>
  <body name="thing" pos="0.3 0.1 0.5" euler="20 30 40">
    <geom name="box" type="box" size="0.3 0.2 0.4" rgba="0.9 0.1 0.1 1" group="2"/>
  </body>
</worldbody></mujoco>
"""
HALF = np.array([0.3, 0.2, 0.4])


@pytest.fixture(scope="module")
def room():
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def plain_box(half) -> Mesh:
    """Six rectangles of two triangles, by hand."""
    points, normals, faces, uvs = [], [], [], []
    for axis in range(3):
        for sign in (-1, 1):
            one, other = (axis + 1) % 3, (axis + 2) % 3
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                point = np.zeros(3)
                point[axis], point[one], point[other] = sign, a, b
                points.append(point * half)
                normals.append(sign * np.eye(3)[axis])
                uvs.append(((a + 1) / 2, (b + 1) / 2))
            first = len(points) - 4
            faces += [(first, first + 1, first + 2), (first, first + 2, first + 3)]
    return Mesh(np.array(points), np.array(normals), np.array(faces, np.int32), np.array(uvs))


def nearness(model, data, solids, size=64):
    view = np.empty(VIEW_SIZE)
    fill_view(view, data.cam_xpos[0], data.cam_xmat[0], 60.0, size, size, 10.0)
    found = np.full((size, padded(size)), 0.1, np.float32)
    ids = np.full(found.shape, -1, np.int32)
    drawn = np.ones(len(solids.parts), np.uint8)
    draw_triangles(
        view, False, size, solids.points, solids.firsts, solids.faces, solids.part_of_face, drawn,
        7, found, ids,
    )  # fmt: skip
    return found[:, :size], ids[:, :size]


def test_a_box_of_triangles_is_as_near_as_the_box(room):
    model, data = room
    solids = Solids([Part(plain_box(HALF), model.body("thing").id)], [])
    solids.place(data)
    found, ids = nearness(model, data, solids)
    expected = DepthCamera(model, "head", 64, geomgroups=(2,)).render(data)[:, :, 0] * 10.0
    is_there = ids >= 0
    assert is_there.sum() > 300 and np.array_equal(is_there, expected < 9.999)
    assert 1.0 / found[is_there] == pytest.approx(expected[is_there], abs=1e-4)
    assert ids[is_there].min() >= 7 and ids.max() < 7 + 12


def test_what_reaches_behind_the_eye_is_cut_there(room):
    model, data = room
    sheet = Mesh(
        np.array([(-9.0, -9.0, 0.0), (9.0, -9.0, 0.0), (9.0, 9.0, 0.0), (-9.0, 9.0, 0.0)]),
        np.tile((0.0, 0.0, 1.0), (4, 1)), np.array([(0, 1, 2), (0, 2, 3)], np.int32),
        np.zeros((4, 2)),
    )  # fmt: skip
    solids = Solids([Part(sheet)], [])
    solids.place(data)
    found, ids = nearness(model, data, solids)
    expected = DepthCamera(model, "head", 64, geomgroups=(0,)).render(data)[:, :, 0] * 10.0
    rows, columns = np.nonzero((ids >= 0) & (expected < 6.0))
    assert len(rows) > 500
    assert 1.0 / found[rows, columns] == pytest.approx(expected[rows, columns], abs=1e-3)


def test_a_dressed_box_is_drawn_in_its_place_and_colour(room):
    model, data = room
    part = Part(plain_box(HALF), model.body("thing").id, rgb=(0.1, 0.1, 0.9))
    visuals = Visuals(Solids([part], []), [model.geom("box").id])
    camera = FreeCamera((0.3, 0.1, 0.5), 2.0, azimuth_deg=0.0)
    plain = Painter(model, 80, 60).render(data, camera).astype(int)
    home_visuals = Painter(model, 80, 60, visuals=visuals).render(data, camera).astype(int)
    is_red, is_blue = (
        plain[..., 0] > 2 * plain[..., 2],
        home_visuals[..., 2] > 2 * home_visuals[..., 0],
    )
    assert is_red.sum() > 500 and (is_red != is_blue).mean() < 0.01


def test_a_texture_has_its_first_row_on_top_and_its_first_column_at_the_left(room):
    model, data = room
    picture = np.zeros((64, 64, 3), np.uint8)
    picture[:32, :32], picture[32:, 32:] = (255, 0, 0), (0, 255, 0)
    sheet = Mesh(
        np.array([(0.0, 1.0, 0.0), (0.0, -1.0, 0.0), (0.0, -1.0, 2.0), (0.0, 1.0, 2.0)]),
        np.tile((-1.0, 0.0, 0.0), (4, 1)), np.array([(0, 1, 2), (0, 2, 3)], np.int32),
        np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]),
    )  # fmt: skip
    visuals = Visuals(Solids([Part(sheet, texture=0, pos=(0.0, 0.0, 3.0))], [picture]), ())
    camera = FreeCamera((0.0, 0.0, 4.0), 3.0, azimuth_deg=0.0, elevation_deg=0.0)
    seen = Painter(model, 60, 60, visuals=visuals).render(data, camera).astype(int)
    assert seen[20, 20, 0] > 100 and seen[20, 20, 1] < 30  # upper left
    assert seen[40, 40, 1] > 100 and seen[40, 40, 0] < 30  # lower right


def test_what_is_translucent_lets_through_what_is_behind_it(room):
    model, data = room
    part = Part(plain_box((0.5, 0.5, 0.5)), pos=(-0.8, 0.1, 0.5), rgb=(0.1, 0.9, 0.1))
    visuals = Visuals(Solids([part], []), ())
    painter = Painter(model, 80, 60, visuals=visuals)
    camera = FreeCamera((0.3, 0.1, 0.5), 3.0, azimuth_deg=0.0)
    reds = []
    for alpha in (0.0, 0.4, 1.0):
        visuals.alphas[:] = alpha
        reds.append(int(painter.render(data, camera)[30, 40, 0]))
    assert reds[0] > reds[1] + 20 > reds[2] + 40


@pytest.mark.skipif(not egl_works(), reason="no working EGL here")
def test_egl_shows_parts_where_plain_does(room):
    model, data = room
    part = Part(plain_box(HALF), model.body("thing").id, rgb=(0.1, 0.1, 0.9))
    visuals = Visuals(Solids([part], []), [model.geom("box").id])
    camera = FreeCamera((0.3, 0.1, 0.5), 2.0, azimuth_deg=0.0)
    blue = []
    for backend in ("plain", "egl"):
        seen = Painter(model, 80, 60, backend, visuals=visuals).render(data, camera).astype(int)
        blue.append(seen[..., 2] > 2 * seen[..., 0])
    assert (blue[0] != blue[1]).mean() < 0.03 and blue[0].sum() > 500
