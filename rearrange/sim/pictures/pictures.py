"""Images for people: third person, through a camera of the model, and a map from above.

`Painter` draws with one of three renderers:

    "plain"  our rasteriser and shading: only numba; smooth edges, soft shadows; what "auto" takes
    "warp"   MuJoCo Warp's ray tracer on the CPU, if `mujoco-warp` is installed
    "egl"    MuJoCo's own OpenGL renderer, if the machine has a working EGL

What hides the room can be left out: geoms by name, all of the house above a height, and walls that
stand between a free camera and the point it looks at.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from rearrange.errors import UserError
from rearrange.sim.pictures.paint_plain import PlainRenderer, map_height
from rearrange.sim.pictures.picture_scene import (
    HOUSE_GROUPS,
    PICTURE_GROUPS,
    FreeCamera,
    Mark,
    collect_shapes,
    hide_between,
)
from rearrange.sim.pictures.triangles import Visuals
from rearrange.sim.robot.depth import camera_index

__all__ = ["BACKENDS", "FreeCamera", "Mark", "Painter", "top_down"]

BACKENDS = ("auto", "plain", "warp", "egl")
MAP_CUT = 2.0  # m, where a map cuts the walls


class Painter:
    """Draws pictures of one model.

    Args:
        width, height: of the picture, pixels.
        backend: one of BACKENDS; "auto" is "plain": always there, and the fastest without a GPU.
        cut_height: m; the house is drawn up to there only (robot and objects in full).
        hide_geoms: names or indices of geoms to leave out.
        see_through: leave out tall parts of the house between a FreeCamera and its `lookat`.
        geomgroups: the geom groups to draw.
        visuals: meshes and textures in place of plain geoms.

    Raises:
        UserError: an unknown backend, one that does not work here, or an unknown geom.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        width: int = 640,
        height: int = 480,
        backend: str = "auto",
        *,
        cut_height: float | None = None,
        hide_geoms: Sequence[str | int] = (),
        see_through: bool = True,
        geomgroups: Sequence[int] = PICTURE_GROUPS,
        visuals: Visuals | None = None,
    ) -> None:
        if backend not in BACKENDS:
            raise UserError(f"renderer must be one of {', '.join(BACKENDS)}, got {backend!r}")
        self.model, self.width, self.height = model, width, height
        self.backend = "plain" if backend == "auto" else backend
        self.cut_height, self.see_through = cut_height, see_through
        self.visuals = visuals
        self._geomgroups = tuple(geomgroups)
        self._hidden = [_geom_index(model, geom) for geom in hide_geoms]
        self._maps: dict[tuple[int, int], PlainRenderer] = {}
        if self.backend == "plain":
            self._renderer = PlainRenderer(width, height)
        else:  # loaded only when asked for: these bring libraries that are not always installed
            from rearrange.sim.pictures import paint_libraries

            self._renderer = paint_libraries.start(self.backend, width, height)

    def render(
        self, data: mujoco.MjData, camera: str | int | FreeCamera, marks: Sequence[Mark] = ()
    ) -> np.ndarray:
        """Picture through a camera of the model or a free one, [height, width, 3] uint8."""
        shapes = collect_shapes(
            self.model,
            data,
            geomgroups=self._geomgroups,
            hidden=self._hidden,
            cut_height=self.cut_height,
            marks=marks,
            visuals=self.visuals,
        )
        if isinstance(camera, FreeCamera):
            eye, axes = camera.pose()
            fovy = camera.fovy_deg
            if self.see_through:
                house = np.flatnonzero(np.isin(self.model.geom_group, HOUSE_GROUPS))
                gone = hide_between(shapes, house, eye, np.asarray(camera.lookat, float))
                if self.visuals is not None:
                    shapes.alphas[np.isin(self.visuals.walls, gone)] = 0.0
        else:
            index = camera_index(self.model, camera)
            eye, axes = data.cam_xpos[index], data.cam_xmat[index]
            fovy = float(self.model.cam_fovy[index])
        return self._renderer.perspective(shapes, eye, axes, fovy)

    def top_down(
        self,
        data: mujoco.MjData,
        bounds: tuple[float, float, float, float],
        width: int,
        marks: Sequence[Mark] = (),
        cut_height: float = MAP_CUT,
    ) -> np.ndarray:
        """Map of `bounds` (xmin, ymin, xmax, ymax), m, from above, [h, width, 3] uint8; +x right,
        +y up.

        Always drawn by "plain". The house is cut at `cut_height`; h keeps the proportions and is
        even.
        """
        size = (width, map_height(bounds, width))
        if size not in self._maps:
            self._maps[size] = PlainRenderer(*size)
        shapes = collect_shapes(
            self.model,
            data,
            geomgroups=self._geomgroups,
            hidden=self._hidden,
            cut_height=cut_height,
            marks=marks,
            visuals=self.visuals,
        )
        return self._maps[size].from_above(shapes, bounds, cut_height + 1.0)


def top_down(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    bounds: tuple[float, float, float, float],
    width: int,
    marks: Sequence[Mark] = (),
    cut_height: float = MAP_CUT,
) -> np.ndarray:
    """One map from above, as `Painter.top_down`."""
    shapes = collect_shapes(model, data, cut_height=cut_height, marks=marks)
    return PlainRenderer(width, map_height(bounds, width)).from_above(
        shapes, bounds, cut_height + 1.0
    )


def _geom_index(model: mujoco.MjModel, geom: str | int) -> int:
    index = (
        geom if isinstance(geom, int) else mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, geom)
    )
    if not 0 <= index < model.ngeom:
        raise UserError(f"hide_geoms must name geoms of the model, got {geom!r}")
    return index
