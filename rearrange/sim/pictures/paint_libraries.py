"""Renderers of other libraries behind the interface of `PlainRenderer.perspective`, for those who
ask.

    "warp"  MuJoCo Warp's ray tracer on the CPU (`pip install mujoco-warp`)
    "egl"   MuJoCo's OpenGL renderer in an EGL context (needs the system's EGL libraries)

Both draw a model of their own, into which every picture writes its shapes; marks are not drawn.
"""

from __future__ import annotations

import os
import subprocess
import sys

import mujoco
import numpy as np

from rearrange.errors import UserError
from rearrange.sim.pictures.picture_scene import Shapes
from rearrange.sim.pictures.triangles import Mesh, Solids

PROBE_TIMEOUT = 30  # s; a broken driver may hang instead of failing
_PROBE = (
    "import mujoco; from mujoco.egl import GLContext; c = GLContext(64, 64); c.make_current();"
    "m = mujoco.MjModel.from_xml_string('<mujoco/>'); mujoco.MjrContext(m, 100); print('works')"
)
SUN_RAYS = np.array([-0.40, 0.28, -0.87])  # as the plain renderer's sun
# A model's own meshes collide and are not seen: a ball that is left out stands for each.
_MESH, _BALL = int(mujoco.mjtGeom.mjGEOM_MESH), int(mujoco.mjtGeom.mjGEOM_SPHERE)
_AWAY = np.array([0.0, 0.0, -1000.0])  # m: where geoms go that a picture leaves out


def start(backend: str, width: int, height: int) -> WarpRenderer | EglRenderer:
    """The renderer "warp" or "egl" for pictures of width x height.

    Raises:
        UserError: it is not installed or does not work here.
    """
    return WarpRenderer(width, height) if backend == "warp" else EglRenderer(width, height)


def egl_works() -> bool:
    """Whether MuJoCo can draw with EGL here, tried in a process of its own."""
    environment = {**os.environ, "MUJOCO_GL": "egl", "PYOPENGL_PLATFORM": "egl"}
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE],
            env=environment,
            capture_output=True,
            timeout=PROBE_TIMEOUT,
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    return probe.returncode == 0 and b"works" in probe.stdout


class Stage:
    """A model of nothing but shapes, one sun and camera 0, so that no library minds the physics."""

    def __init__(self, shapes: Shapes) -> None:
        spec = mujoco.MjSpec()
        for g, kind in enumerate(np.where(shapes.types == _MESH, _BALL, shapes.types)):
            # Poses matter here already: the ray tracer builds its tree of boxes from them.
            quat = np.empty(4)
            mujoco.mju_mat2Quat(quat, shapes.matrices[g])
            spec.worldbody.add_geom(
                type=mujoco.mjtGeom(int(kind)), size=np.maximum(shapes.sizes[g], 1e-3),
                pos=shapes.positions[g], quat=quat,
            )  # fmt: skip
        self._add_parts(spec, shapes.solids)
        spec.worldbody.add_camera(name="picture")
        spec.worldbody.add_light(
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, castshadow=True, pos=-6.0 * SUN_RAYS,
            dir=SUN_RAYS, diffuse=[0.55, 0.55, 0.50], ambient=[0.0, 0.0, 0.0], specular=[0.0, 0.0,
            0.0],
        )  # fmt: skip
        head = spec.visual.headlight  # gives the ambient light only
        head.ambient, head.diffuse, head.specular = [0.5, 0.5, 0.52], [0.0] * 3, [0.0] * 3
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self._types, self._num_plain = shapes.types.copy(), len(shapes.types)
        self._solids = shapes.solids
        mesh = self.model.geom_dataid[self._num_plain :]
        # MuJoCo keeps a mesh about its centre and turned to its main axes.
        self._mesh_pos, self._mesh_turn = self.model.mesh_pos[mesh], np.empty((len(mesh), 3, 3))
        for turn, quat in zip(self._mesh_turn, self.model.mesh_quat[mesh], strict=True):
            mujoco.mju_quat2Mat(turn.reshape(9), quat)
        mujoco.mj_forward(self.model, self.data)

    @staticmethod
    def _add_parts(spec: mujoco.MjSpec, solids: Solids) -> None:
        for number, image in enumerate(solids.textures):
            texture = spec.add_texture(
                name=f"picture_{number}", type=mujoco.mjtTexture.mjTEXTURE_2D, nchannel=3,
                width=image.shape[1], height=image.shape[0],
            )  # fmt: skip
            texture.data = image.tobytes()
            material = spec.add_material(name=f"picture_{number}")
            material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = f"picture_{number}"
        names: dict[int, str] = {}
        for part in solids.parts:
            mesh = part.mesh
            if id(mesh) not in names:
                names[id(mesh)] = f"mesh_{len(names)}"
                places = np.stack([mesh.uvs[:, 0], 1.0 - mesh.uvs[:, 1]], axis=1)
                spec.add_mesh(
                    name=names[id(mesh)], inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
                    uservert=mesh.points.ravel(), usernormal=mesh.normals.ravel(),
                    usertexcoord=places.ravel(), userface=_outward(mesh).ravel(),
                )  # fmt: skip
            geom = spec.worldbody.add_geom(
                type=mujoco.mjtGeom.mjGEOM_MESH, meshname=names[id(mesh)], contype=0, conaffinity=0
            )
            if part.texture >= 0:
                geom.material = f"picture_{part.texture}"

    def fits(self, shapes: Shapes) -> bool:
        """Whether shapes of these types can be shown."""
        count = self._num_plain
        return (
            len(shapes.types) >= count
            and shapes.solids is self._solids
            and np.array_equal(shapes.types[:count], self._types)
        )

    def show(self, shapes: Shapes, eye: np.ndarray, axes: np.ndarray, fovy_deg: float) -> None:
        model, data, count = self.model, self.data, self._num_plain
        solids = shapes.solids
        model.geom_size[:count] = shapes.sizes[:count]
        model.geom_rgba[:count, :3], model.geom_rgba[count:, :3] = (
            shapes.colours[:count], np.minimum(solids.colours + shapes.glow, 1.0)
        )  # fmt: skip
        alphas = np.concatenate([shapes.drawn[:count], shapes.alphas])
        model.geom_rgba[:, 3] = alphas
        turns = solids.turns @ self._mesh_turn
        places = solids.places + np.einsum("nij,nj->ni", solids.turns, self._mesh_pos)
        data.geom_xpos[:] = np.concatenate([shapes.positions[:count], places])
        data.geom_xmat[:] = np.concatenate([shapes.matrices[:count], turns.reshape(-1, 9)])
        data.geom_xpos[alphas == 0.0] = _AWAY
        data.cam_xpos[0], data.cam_xmat[0], model.cam_fovy[0] = eye, axes, fovy_deg


def _outward(mesh: Mesh) -> np.ndarray:
    """Faces [F, 3] whose corners go around as the normals have it: OpenGL draws no backs."""
    corners, normals = mesh.points[mesh.faces], mesh.normals[mesh.faces].sum(axis=1)
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    is_wrong = np.einsum("ij,ij->i", across, normals) < 0.0
    return np.where(is_wrong[:, None], mesh.faces[:, ::-1], mesh.faces)


class EglRenderer:
    """MuJoCo's own OpenGL renderer."""

    def __init__(self, width: int, height: int) -> None:
        if not egl_works():
            raise UserError("renderer egl needs a working EGL (Mesa or a GPU); use renderer plain")
        from mujoco.egl import GLContext  # pyrefly: ignore[missing-import]: its stubs lack it

        self._gl = GLContext(width, height)
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._picture = np.empty((height, width, 3), np.uint8)
        self._option, self._camera = mujoco.MjvOption(), mujoco.MjvCamera()
        self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
        self._stage: Stage | None = None

    def _load(self, shapes: Shapes) -> Stage:
        stage = self._stage = Stage(shapes)
        visual = stage.model.vis
        visual.global_.offwidth = self._rectangle.width
        visual.global_.offheight = self._rectangle.height
        visual.quality.offsamples = 4
        self._context = mujoco.MjrContext(stage.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(stage.model, maxgeom=stage.model.ngeom + 100)
        return stage

    def perspective(
        self, shapes: Shapes, eye: np.ndarray, axes: np.ndarray, fovy_deg: float
    ) -> np.ndarray:
        """Picture as `PlainRenderer.perspective`."""
        self._gl.make_current()
        stage = self._stage
        if stage is None or not stage.fits(shapes):
            stage = self._load(shapes)
        stage.show(shapes, eye, axes, fovy_deg)
        mujoco.mjv_updateScene(
            stage.model, stage.data, self._option, None, self._camera,
            mujoco.mjtCatBit.mjCAT_ALL, self._scene,
        )  # fmt: skip
        mujoco.mjr_render(self._rectangle, self._scene, self._context)
        mujoco.mjr_readPixels(self._picture, None, self._rectangle, self._context)
        return self._picture[::-1].copy()


class WarpRenderer:
    """MuJoCo Warp's ray tracer with one sun and its shadows."""

    def __init__(self, width: int, height: int) -> None:
        try:
            import mujoco_warp
            import warp
        except ImportError:
            raise UserError(
                "renderer warp needs: pip install mujoco-warp; or use renderer plain"
            ) from None
        warp.config.quiet = True
        self._warp, self._mujoco_warp = warp, mujoco_warp
        self._size = (width, height)
        self._stage: Stage | None = None

    def _load(self, shapes: Shapes) -> Stage:
        stage = self._stage = Stage(shapes)
        width, height = self._size
        self._model = self._mujoco_warp.put_model(stage.model)
        self._data = self._mujoco_warp.put_data(stage.model, stage.data, nworld=1)
        self._context = self._mujoco_warp.create_render_context(
            stage.model, 1, cam_res=self._size, render_rgb=True, render_depth=False,
            use_shadows=True, enabled_geom_groups=[0], cam_active=[0], use_precomputed_rays=False,
            background_color=(0.80, 0.86, 0.92, 1.0),
        )  # fmt: skip
        self._picture = self._warp.zeros((1, height, width), dtype=self._warp.vec3)
        return stage

    def perspective(
        self, shapes: Shapes, eye: np.ndarray, axes: np.ndarray, fovy_deg: float
    ) -> np.ndarray:
        """Picture as `PlainRenderer.perspective`."""
        with self._warp.ScopedDevice("cpu"):
            stage = self._stage
            if stage is None or not stage.fits(shapes):
                stage = self._load(shapes)
            stage.show(shapes, eye, axes, fovy_deg)
            model, data = stage.model, stage.data
            for array, values in (
                (self._model.geom_size, model.geom_size),
                (self._model.geom_rgba, model.geom_rgba),
                (self._model.cam_fovy, model.cam_fovy),
                (self._data.geom_xpos, data.geom_xpos),
                (self._data.geom_xmat, data.geom_xmat.reshape(-1, 3, 3)),
                (self._data.cam_xpos, data.cam_xpos),
                (self._data.cam_xmat, data.cam_xmat.reshape(-1, 3, 3)),
            ):
                array.assign(np.ascontiguousarray(values, np.float32)[None])
            self._mujoco_warp.refit_bvh(self._model, self._data, self._context)
            self._mujoco_warp.render(self._model, self._data, self._context)
            self._mujoco_warp.get_rgb(self._context, 0, self._picture)
            picture = self._picture.numpy()[0]
        return (np.clip(picture, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
