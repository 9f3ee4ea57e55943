"""The depth camera against hand calculations and against MuJoCo's own ray caster."""

import functools
import math
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest

from rearrange.eval.benchmarks.homes.bench_depth import bench_depth, pixel_rays
from rearrange.sim.home.objects import HAB2_KINDS
from rearrange.sim.homes.layout import layout_ids, make_layout
from rearrange.sim.robot.depth import DepthCamera, padded
from rearrange.sim.robot.depth_kernel import PARKED_Z
from rearrange.sim.robot.fetch import ARM_START
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.sim.simulation import Simulation

SEEN = np.array([1, 1, 1, 1, 0, 0], np.uint8)  # geom groups
MAX_DEPTH = 10.0  # m
# A camera at the world's origin, 1 m up, that looks along +x with +y on its left.
LEVEL = '<camera name="head" pos="0 0 1" xyaxes="0 -1 0 0 0 1" fovy="90"/>'


def world(geoms: str, camera: str = LEVEL) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{camera}{geoms}</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def cluttered_room(seed: int, shapes: str = "all") -> tuple[mujoco.MjModel, mujoco.MjData]:
    """A room of 8 x 6 m with 100 solids of every kind, turned every way."""
    rng = np.random.default_rng(seed)
    kinds = ["box", "cylinder", "sphere", "capsule", "ellipsoid"]
    geoms = ['<geom type="plane" size="0 0 1"/>']
    for x, y, hx, hy in ((4, 0, 0.05, 3), (-4, 0, 0.05, 3), (0, 3, 4, 0.05), (0, -3, 4, 0.05)):
        geoms.append(f'<geom type="box" size="{hx} {hy} 1.3" pos="{x} {y} 1.3"/>')
    for number in range(100):
        size = rng.uniform(0.02, 0.3, 3)
        pos, quat = rng.uniform([-3.8, -2.8, 0.0], [3.8, 2.8, 2.0]), rng.normal(size=4)
        numbers = [" ".join(f"{value:.6f}" for value in array) for array in (size, pos, quat)]
        geoms.append(
            f'<geom type="{kinds[number % 5]}" size="{numbers[0]}" pos="{numbers[1]}"'
            f' quat="{numbers[2]}" group="{number % 6}"/>'
        )
    return world("".join(geoms))


def move_camera(
    model: mujoco.MjModel, data: mujoco.MjData, pos: np.ndarray, quat: np.ndarray, fovy: float
) -> None:
    model.cam_pos[0], model.cam_quat[0] = pos, quat / np.linalg.norm(quat)
    model.cam_fovy[0] = fovy
    mujoco.mj_forward(model, data)


def planar_depth_by_rays(model: mujoco.MjModel, data: mujoco.MjData, size: int) -> np.ndarray:
    """[size, size] m, from `mj_multiRay`."""
    rays, norms = pixel_rays(model, data, size, 0)
    geoms, distances = np.empty(size * size, np.int32), np.empty(size * size)
    mujoco.mj_multiRay(
        model,
        data,
        data.cam_xpos[0],
        rays,
        SEEN,
        True,
        -1,
        geoms,
        distances,
        None,
        size * size,
        1e9,
    )
    depths = np.where(distances < 0, MAX_DEPTH, distances / norms)
    return np.minimum(depths, MAX_DEPTH).reshape(size, size)


def disagreement(model: mujoco.MjModel, data: mujoco.MjData, camera: DepthCamera) -> float:
    """Share of pixels that differ from `mj_multiRay` by more than 1 mm."""
    depth = camera.render(data)[:, :, 0] * MAX_DEPTH
    return float(np.mean(np.abs(depth - planar_depth_by_rays(model, data, camera.size)) > 1e-3))


def test_a_wall_across_the_view_has_one_depth_everywhere():
    model, data = world('<geom type="box" size="0.5 50 50" pos="3.5 0 1"/>')
    image = DepthCamera(model, size=32).render(data)
    assert image.shape == (32, 32, 1) and image.dtype == np.float32
    np.testing.assert_allclose(image, 0.3, atol=1e-6)


def test_the_floor_is_below_and_the_left_is_left():
    model, data = world(
        '<geom type="plane" size="0 0 1"/><geom type="sphere" size="0.5" pos="4 2 1"/>'
    )
    image = DepthCamera(model, size=64).render(data)[:, :, 0]
    assert np.all(image[0] == 1.0)  # sky, clipped to 10 m
    # The lowest row looks down at slope 63/64 from 1 m: it meets the floor 64/63 m ahead.
    np.testing.assert_allclose(image[63], 64 / 63 / MAX_DEPTH, atol=1e-6)
    # +y is on the left: half a unit of slope is a quarter of the image from its middle.
    assert image[31, 16] < 0.4 and image[31, 47] == 1.0


def test_a_ball_ahead_is_as_near_as_its_front():
    model, data = world('<geom type="sphere" size="0.5" pos="3 0 1"/>')
    image = DepthCamera(model, size=65).render(data)[:, :, 0]
    assert image[32, 32] * MAX_DEPTH == pytest.approx(2.5, abs=1e-5)
    # Half its outline: tan(asin(r / d)) of 1, times 32.5 pixels.
    radius = 32.5 * math.tan(math.asin(0.5 / 3))
    assert np.sum(image[32] < 1.0) == 2 * math.floor(radius) + 1


def test_agrees_with_multiray_wherever_the_camera_is():
    rng = np.random.default_rng(0)
    shares = []
    for seed in range(4):
        model, data = cluttered_room(seed)
        camera = DepthCamera(model, size=64)
        for _ in range(15):
            pos = rng.uniform([-3.5, -2.5, 0.1], [3.5, 2.5, 2.2])
            move_camera(model, data, pos, rng.normal(size=4), rng.uniform(30, 120))
            shares.append(disagreement(model, data, camera))
    assert np.mean(shares) < 1e-4
    assert np.max(shares) < 2e-3


@pytest.mark.parametrize("shape", ["box", "cylinder", "sphere", "capsule", "ellipsoid"])
def test_from_inside_a_solid_its_far_wall_is_seen(shape):
    model, data = world(f'<geom type="{shape}" size="0.4 0.6 0.5" pos="0.1 0.05 1.1"/>')
    camera, rng = DepthCamera(model, size=48), np.random.default_rng(1)
    for _ in range(10):
        move_camera(model, data, np.array([0.0, 0.0, 1.0]), rng.normal(size=4), 90.0)
        assert disagreement(model, data, camera) < 1e-3
        assert camera.render(data).max() < 0.12


def test_types_and_sizes_written_later_are_drawn():
    model, data = world('<geom type="box" size="1 1 1" pos="4 0 1"/>')
    camera = DepthCamera(model, size=33)
    assert camera.render(data)[16, 16, 0] == pytest.approx(0.3)
    model.geom_type[0] = mujoco.mjtGeom.mjGEOM_SPHERE
    model.geom_size[0] = [0.5, 0, 0]
    assert camera.render(data)[16, 16, 0] == pytest.approx(0.35)


def test_other_groups_and_parked_geoms_are_not_seen():
    model, data = world(
        '<geom type="box" size="1 1 1" pos="4 0 1" group="4"/>'
        '<geom type="box" size="1 1 1" pos="4 0 1" group="5"/>'
        f'<geom type="box" size="90 90 1" pos="0 0 {PARKED_Z - 2}"/>'
    )
    assert np.all(DepthCamera(model, size=16).render(data) == 1.0)


def random_states(layout: str, count: int, rng: np.random.Generator) -> Iterator[Simulation]:
    """A simulation in which the robot and all that opens is put anywhere in a layout."""
    sim = _simulation()
    xmin, ymin, xmax, ymax = make_layout(layout).bounds
    objects = tuple(
        ObjectPlacement(name, (*rng.uniform([xmin, ymin], [xmax, ymax]), 0.8), (1.0, 0.0, 0.0, 0.0))
        for name in HAB2_KINDS
    )
    sim.reset(Scene(layout, objects, (xmin, ymin, 0.0), tuple(ARM_START)))
    hinges = np.flatnonzero(sim.model.jnt_type >= int(mujoco.mjtJoint.mjJNT_SLIDE))
    for _ in range(count):
        for joint in hinges:
            low, high = sim.model.jnt_range[joint]
            sim.data.qpos[sim.model.jnt_qposadr[joint]] = rng.uniform(low, high)
        for name, value in (
            ("base_x", rng.uniform(xmin, xmax)),
            ("base_y", rng.uniform(ymin, ymax)),
            ("base_yaw", rng.uniform(-math.pi, math.pi)),
        ):
            sim.data.joint(name).qpos[0] = value
        mujoco.mj_forward(sim.model, sim.data)
        yield sim


@functools.cache
def _simulation() -> Simulation:
    return Simulation()


def test_agrees_with_multiray_in_100_states_of_all_layouts():
    rng, shares = np.random.default_rng(5), []
    layouts = [layout for split in ("train", "val", "test") for layout in layout_ids(split)]
    for layout in layouts:
        for sim in random_states(layout, -(-100 // len(layouts)), rng):
            camera = DepthCamera(sim.model, "head", size=128)
            shares.append(disagreement(sim.model, sim.data, camera))
    assert len(shares) >= 100 and np.max(shares) < 1e-3


def test_fills_the_given_array_and_repeats_itself():
    model, data = cluttered_room(1)
    camera, out = DepthCamera(model, size=50), np.full((50, 50, 1), np.nan, np.float32)
    assert camera.render(data, out) is out
    np.testing.assert_array_equal(out, camera.render(data))
    assert np.all((out >= 0.0) & (out <= 1.0))


def test_poses_that_are_not_numbers_do_not_crash():
    model, data = cluttered_room(2)
    camera = DepthCamera(model, size=40)
    for value in (np.nan, np.inf, 1e300):
        data.geom_xpos[10:30] = value
        data.geom_xmat[40:60] = value
        assert camera.render(data).shape == (40, 40, 1)


def test_a_mesh_or_an_unknown_camera_is_refused():
    model, _ = world('<geom type="box" size="1 1 1"/>')
    with pytest.raises(ValueError, match="camera must be one of .*head"):
        DepthCamera(model, "tail")
    with pytest.raises(ValueError, match="positive"):
        DepthCamera(model, size=0)
    model.geom_type[0] = mujoco.mjtGeom.mjGEOM_MESH
    with pytest.raises(ValueError, match="primitives"):
        DepthCamera(model)


def test_rows_are_stored_in_whole_blocks():
    assert [padded(width) for width in (1, 16, 17, 128)] == [16, 16, 32, 128]


def test_the_benchmark_times_ours_and_multiray():
    model, data = cluttered_room(3)
    times = bench_depth(model, data, size=32, repeats=2)
    assert times["depth"] > 0.0 and times["mj_multiRay"] > 0.0
