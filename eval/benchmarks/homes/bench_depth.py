"""Time of one depth image: our kernel beside MuJoCo's renderers, alternating in one run.

    ours            `DepthCamera.render`, the whole image
    `mj_multiRay`   one call with a ray per pixel: the call alone, rays prepared beforehand
    MuJoCo Warp     its ray tracer on the CPU: poses handed over, tree refitted, depth read back
    EGL             MuJoCo's OpenGL renderer: scene updated, drawn without shadows, depth read back

The last two are left out where they are not installed or do not work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import mujoco
import numpy as np

from rearrange.sim.pictures.paint_libraries import Stage, egl_works
from rearrange.sim.pictures.picture_scene import collect_shapes
from rearrange.sim.robot.depth import VISIBLE_GROUPS, DepthCamera, camera_index


def bench_depth(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    size: int = 128,
    repeats: int = 30,
    camera: str | int = "head",
) -> dict[str, float]:
    """Median times of one size x size depth image by each way that works here, s.

    Names: "depth" (ours), "mj_multiRay", "MuJoCo Warp on the CPU", "MuJoCo with EGL".
    """
    ways: dict[str, Callable[[], object] | None] = {
        "depth": _ours(model, data, size, camera),
        "mj_multiRay": multiray_image(model, data, size, camera),
        "MuJoCo Warp on the CPU": _warp(model, data, size, camera),
        "MuJoCo with EGL": _egl(model, data, size, camera),
    }
    draws = {name: draw for name, draw in ways.items() if draw is not None}
    times: dict[str, list[float]] = {name: [] for name in draws}
    for turn in range(repeats + 2):  # two turns to warm up
        for name, draw in draws.items():
            start = time.perf_counter()
            draw()
            if turn >= 2:
                times[name].append(time.perf_counter() - start)
    return {name: float(np.median(taken)) for name, taken in times.items()}


def multiray_image(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    size: int,
    camera: str | int = "head",
    max_depth: float = 10.0,
) -> Callable[[], np.ndarray]:
    """A function that casts a ray through every pixel and returns the distances, [size * size], m.

    -1 where nothing is hit. The rays are those of the camera's pose now. Divided by the norms that
    `pixel_rays` gives, distances become planar depths.
    """
    rays, norms = pixel_rays(model, data, size, camera)
    eye = data.cam_xpos[camera_index(model, camera)]
    groups = np.isin(np.arange(mujoco.mjNGROUP), VISIBLE_GROUPS).astype(np.uint8)
    count, cutoff = size * size, max_depth * float(norms.max())
    geoms, distances = np.empty(count, np.int32), np.empty(count)

    def cast() -> np.ndarray:
        mujoco.mj_multiRay(
            model, data, eye, rays, groups, True, -1, geoms, distances, None, count, cutoff
        )
        return distances

    return cast


def pixel_rays(
    model: mujoco.MjModel, data: mujoco.MjData, size: int, camera: str | int
) -> tuple[np.ndarray, np.ndarray]:
    """Unit rays through the pixel centres in the world, [size * size * 3], row by row from the top.

    With them the length, [size * size], that each had with its part along the optical axis being 1.
    """
    index = camera_index(model, camera)
    half = math.tan(math.radians(model.cam_fovy[index]) / 2)
    across = (2 * (np.arange(size) + 0.5) / size - 1) * half
    x, y = np.meshgrid(across, -across)
    # MuJoCo's cameras look along -z.
    rays_c = np.stack([x, y, -np.ones_like(x)], axis=-1).reshape(-1, 3)
    norms = np.linalg.norm(rays_c, axis=1)
    rays_w = rays_c @ data.cam_xmat[index].reshape(3, 3).T / norms[:, None]
    return np.ascontiguousarray(rays_w).ravel(), norms


def _ours(
    model: mujoco.MjModel, data: mujoco.MjData, size: int, camera: str | int
) -> Callable[[], object]:
    depth_camera = DepthCamera(model, camera, size)
    image = np.empty((size, size, 1), np.float32)
    return lambda: depth_camera.render(data, image)


def _stage(model: mujoco.MjModel, data: mujoco.MjData, camera: str | int) -> Stage:
    """The visible geoms alone, since MuJoCo Warp refuses models with sleeping bodies."""
    index = camera_index(model, camera)
    shapes = collect_shapes(model, data, geomgroups=VISIBLE_GROUPS)
    stage = Stage(shapes)
    stage.show(shapes, data.cam_xpos[index], data.cam_xmat[index], float(model.cam_fovy[index]))
    return stage


def _warp(
    model: mujoco.MjModel, data: mujoco.MjData, size: int, camera: str | int
) -> Callable[[], object] | None:
    try:
        import mujoco_warp
        import warp
    except ImportError:
        return None
    warp.config.quiet = True
    stage = _stage(model, data, camera)
    with warp.ScopedDevice("cpu"):
        warp_model = mujoco_warp.put_model(stage.model)
        warp_data = mujoco_warp.put_data(stage.model, stage.data, nworld=1)
        context = mujoco_warp.create_render_context(
            stage.model, 1, cam_res=(size, size), render_rgb=False, render_depth=True,
            enabled_geom_groups=[0], cam_active=[0],
        )  # fmt: skip
        image = warp.zeros((1, size, size), dtype=float)
    matrices = stage.data.geom_xmat.reshape(1, -1, 3, 3)

    def draw() -> np.ndarray:
        with warp.ScopedDevice("cpu"):
            warp_data.geom_xpos.assign(stage.data.geom_xpos[None].astype(np.float32))
            warp_data.geom_xmat.assign(matrices.astype(np.float32))
            mujoco_warp.refit_bvh(warp_model, warp_data, context)
            mujoco_warp.render(warp_model, warp_data, context)
            mujoco_warp.get_depth(context, 0, 10.0, image)
            return image.numpy()

    return draw


def _egl(
    model: mujoco.MjModel, data: mujoco.MjData, size: int, camera: str | int
) -> Callable[[], object] | None:
    if not egl_works():
        return None
    from mujoco.egl import GLContext  # pyrefly: ignore[missing-import]: its stubs lack it

    stage = _stage(model, data, camera)
    visual = stage.model.vis
    visual.global_.offwidth = visual.global_.offheight = size
    visual.quality.offsamples = 0
    gl = GLContext(size, size)
    gl.make_current()
    context = mujoco.MjrContext(stage.model, mujoco.mjtFontScale.mjFONTSCALE_100)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
    scene, option = mujoco.MjvScene(stage.model, model.ngeom + 100), mujoco.MjvOption()
    for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
        scene.flags[flag] = False
    view = mujoco.MjvCamera()
    view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
    rectangle, image = mujoco.MjrRect(0, 0, size, size), np.empty((size, size), np.float32)

    def draw() -> np.ndarray:
        gl.make_current()
        mujoco.mjv_updateScene(
            stage.model, stage.data, option, None, view, mujoco.mjtCatBit.mjCAT_ALL, scene
        )
        mujoco.mjr_render(rectangle, scene, context)
        mujoco.mjr_readPixels(None, image, rectangle, context)
        return image

    return draw
