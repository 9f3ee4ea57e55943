"""The head camera's depth image for people: shades of grey, with the robot's own arm dimmed."""

from __future__ import annotations

from typing import Any

import numpy as np

from rearrange.sim.robot.depth import VISIBLE_GROUPS, camera_index, fill_view, padded
from rearrange.sim.robot.depth_kernel import VIEW_SIZE, WORK_SIZE, rasterise

FAR = 10.0  # m, as the policy's camera
SHOWN = 6.0  # m: rooms end by then
ARM = (0.34, 0.36, 0.42)  # what is left of the arm's shade, by colour


class HeadPicture:
    """What the policy sees, [size, size, 3] uint8, near is bright."""

    def __init__(self, sim: Any, size: int) -> None:
        self._sim, self._size = sim, size
        model = sim.model
        self._camera = camera_index(model, "head")
        base = model.body("base_link").id
        self._is_robot = np.append(model.body_rootid[model.geom_bodyid] == base, False)
        self._nearness = np.empty((size, padded(size)), np.float32)
        self._ids = np.empty(self._nearness.shape, np.int32)
        self._spans, self._work = np.empty((2, size)), np.empty(WORK_SIZE)

    def draw(self) -> np.ndarray:
        """The picture of this moment."""
        model, data, size = self._sim.model, self._sim.data, self._size
        view = np.empty(VIEW_SIZE)
        fill_view(
            view,
            data.cam_xpos[self._camera],
            data.cam_xmat[self._camera],
            float(model.cam_fovy[self._camera]),
            size,
            size,
            FAR,
        )
        self._nearness.fill(1.0 / FAR)
        self._ids.fill(-1)  # the last place of `_is_robot`: nothing there
        drawn = np.isin(model.geom_group, VISIBLE_GROUPS).astype(np.uint8)
        rasterise(
            view,
            False,
            size,
            model.geom_type,
            model.geom_size,
            data.geom_xpos,
            data.geom_xmat,
            drawn,
            self._nearness,
            self._ids,
            self._spans,
            self._work,
        )
        # The root spreads what is near, where the hand works.
        depth = np.minimum(1.0 / self._nearness[:, :size] / SHOWN, 1.0)
        shade = 255.0 * (1.0 - np.sqrt(depth))
        arm = self._is_robot[self._ids[:, :size]][:, :, None]
        return (shade[:, :, None] * np.where(arm, ARM, 1.0)).astype(np.uint8)
