"""Pictures for people: what is where, what is left out, and that each renderer shows the same."""

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.pictures.paint_libraries import egl_works
from rearrange.sim.pictures.pictures import FreeCamera, Mark, Painter, top_down

ROOM = """
<mujoco><worldbody>
  <camera name="head" pos="-2 0 1" xyaxes="0 -1 0 0 0 1" fovy="60"/>
  <geom name="floor" type="plane" size="0 0 1" rgba="0.7 0.7 0.7 1"/>
  <geom name="wall" type="box" size="0.05 2 1.25" pos="2 0 1.25" rgba="0.9 0.9 0.9 1"/>
  <geom name="near_wall" type="box" size="0.05 2 1.25" pos="-1 0 1.25" rgba="0.9 0.9 0.9 1"/>
  <geom name="lamp" type="box" size="0.2 0.2 0.1" pos="1 1 2.2" rgba="1 1 0 1"/>
  <geom name="red" type="box" size="0.2 0.2 0.2" pos="1 0 0.2" rgba="0.9 0.05 0.05 1" group="2"/>
  <geom name="green" type="cylinder" size="0.2 0.3" pos="0.5 -1 0.3" rgba="0 .9 0 1" group="2"/>
</worldbody></mujoco>
"""
BOUNDS = (-2.0, -2.0, 3.0, 2.0)  # m


@pytest.fixture(scope="module")
def room() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def is_red(picture: np.ndarray) -> np.ndarray:
    return (picture[..., 0] > 60) & (picture[..., 0] > 3 * picture[..., 1].astype(int))


def is_green(picture: np.ndarray) -> np.ndarray:
    return (picture[..., 1] > 60) & (picture[..., 1] > 3 * picture[..., 0].astype(int))


def middle(mask: np.ndarray) -> tuple[float, float]:
    """Mean row and column."""
    rows, columns = np.nonzero(mask)
    return float(rows.mean()), float(columns.mean())


def test_a_free_camera_has_its_target_in_the_middle(room):
    model, data = room
    painter = Painter(model, 160, 120)
    picture = painter.render(data, FreeCamera((1.0, 0.0, 0.2), 2.0, azimuth_deg=0.0))
    assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
    assert middle(is_red(picture)) == pytest.approx((60, 80), abs=4)
    assert middle(is_green(picture))[1] > 100  # looking along +x, -y is on the right


def test_walls_before_the_target_are_left_out_unless_asked_for(room):
    model, data = room
    camera = FreeCamera((1.0, 0.0, 0.2), 4.0, azimuth_deg=0.0, elevation_deg=-20.0)
    assert is_red(Painter(model, 160, 120).render(data, camera)).any()
    assert not is_red(Painter(model, 160, 120, see_through=False).render(data, camera)).any()
    hidden = Painter(model, 160, 120, see_through=False, hide_geoms=["near_wall"])
    assert is_red(hidden.render(data, camera)).any()


def test_a_cut_house_ends_at_the_height(room):
    model, data = room
    camera = FreeCamera((1.0, 1.0, 2.2), 2.0, azimuth_deg=0.0, elevation_deg=0.0)
    full, cut = (Painter(model, 80, 60, cut_height=h).render(data, camera) for h in (None, 1.5))
    assert full[30, 40, 0] > full[30, 40, 2] + 60  # the yellow lamp
    assert cut[30, 40, 2] >= cut[30, 40, 0]  # sky: lamp left out, wall behind it cut
    assert data.geom("wall").xpos[2] == 1.25 and model.geom("wall").size[2] == 1.25


def test_a_map_has_y_up_and_the_scale_of_its_bounds(room):
    model, data = room
    picture = top_down(model, data, BOUNDS, 250)  # 50 pixels a metre
    assert picture.shape == (200, 250, 3)
    assert middle(is_red(picture)) == pytest.approx((100, 150), abs=2)
    assert middle(is_green(picture)) == pytest.approx((150, 125), abs=2)
    assert is_red(picture).sum() == pytest.approx(20 * 20, rel=0.15)
    assert is_green(picture).sum() == pytest.approx(np.pi * 10**2, rel=0.15)


def test_a_mark_is_drawn_in_picture_and_map(room):
    model, data = room
    mark = Mark((0.0, 1.0, 0.3), radius=0.2, rgb=(0.0, 0.9, 0.0))
    painter = Painter(model, 120, 90)
    camera = FreeCamera((0.0, 1.0, 0.3), 1.5, azimuth_deg=90.0)
    assert is_green(painter.render(data, camera, [mark]))[45, 60]
    assert not is_green(painter.render(data, camera))[45, 60]
    assert is_green(painter.top_down(data, BOUNDS, 250, [mark]))[50, 100]


def test_a_shadow_lies_on_the_floor_away_from_the_sun(room):
    model, data = room
    painter = Painter(model, 100, 80, hide_geoms=["wall", "near_wall"])
    picture = painter.top_down(data, BOUNDS, 500, cut_height=3.0).astype(int)
    lit = picture[40:60, 20:40].mean()
    # The lamp (1, 1, 2.2) throws its shadow where the sun's ray through it meets the floor.
    x, y = 1.0 - 2.2 * 0.40 / 0.87, 1.0 + 2.2 * 0.28 / 0.87
    row, col = round(100 * (2.0 - y)), round(100 * (x + 2.0))
    assert picture[row - 5 : row + 5, col - 5 : col + 5].mean() < 0.8 * lit


def test_the_same_state_gives_the_same_picture_whoever_paints_it(room):
    model, data = room
    camera = FreeCamera((1.0, 0.0, 0.2), 2.0)
    first, second = (Painter(model, 100, 80).render(data, camera) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_an_unknown_renderer_camera_or_geom_is_a_users_mistake(room):
    model, data = room
    with pytest.raises(UserError, match="renderer must be one of auto, plain, warp, egl"):
        Painter(model, backend="vulkan")
    with pytest.raises(UserError, match="hide_geoms"):
        Painter(model, hide_geoms=["roof"])
    with pytest.raises(ValueError, match="camera must be one of"):
        Painter(model, 20, 20).render(data, "tail")


def shows_the_same(model: mujoco.MjModel, data: mujoco.MjData, backend: str) -> bool:
    camera = FreeCamera((1.0, 0.0, 0.2), 2.0, azimuth_deg=30.0)
    ours, theirs = (
        Painter(model, 160, 120, name).render(data, camera) for name in ("plain", backend)
    )
    difference = is_red(ours) != is_red(theirs)
    return bool(is_red(ours).sum() > 200 and difference.sum() < 0.1 * is_red(ours).sum())


def test_egl_shows_the_same_things_in_the_same_places(room):
    if not egl_works():
        pytest.skip("no working EGL here")
    assert shows_the_same(*room, "egl")


@pytest.mark.slow
def test_warp_shows_the_same_things_in_the_same_places(room):
    pytest.importorskip("mujoco_warp")
    assert shows_the_same(*room, "warp")
