"""Collects the parts and textures of a home's visuals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from rearrange.sim.pictures.triangles import Mesh, Part
from rearrange.sim.visuals.meshes import rounded_box

Colour = tuple[float, float, float]

_DRAWN: dict[str, np.ndarray] = {}
"""By name, what a texture shows: drawn once in a process, as every episode dresses anew."""


class VisualBuilder:
    """Parts by the order in which they were added, and each texture once."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.textures: list[np.ndarray] = []
        self._numbers: dict[str, int] = {}

    def texture(self, name: str, draw: Callable[[], np.ndarray]) -> int:
        """Number of a texture, drawn when it is first asked for; a name always means the same."""
        if name not in self._numbers:
            if name not in _DRAWN:
                _DRAWN[name] = draw()
            self._numbers[name] = len(self.textures)
            self.textures.append(_DRAWN[name])
        return self._numbers[name]

    def add(self, body: int, mesh: Mesh, rgb: Colour = (1.0, 1.0, 1.0), **how: Any) -> None:
        """A mesh on a body; `how` as `Part` has it."""
        self.parts.append(Part(mesh, body, rgb=rgb, **how))

    def box(
        self,
        body: int,
        pos: Sequence[float],
        half: Sequence[float],
        rgb: Colour,
        radius: float = 0.006,
        **how: Any,
    ) -> None:
        """A box with soft edges."""
        mesh = box_mesh(*(round(float(v), 4) for v in half), radius)
        self.add(body, mesh, rgb, pos=tuple(float(v) for v in pos), **how)

    def copy_part(self, part: Part, **how: Any) -> None:
        """A part once more, changed as `how` says."""
        self.parts.append(replace(part, **how))


@lru_cache(maxsize=512)
def box_mesh(x: float, y: float, z: float, radius: float) -> Mesh:
    """A box with soft edges."""
    return rounded_box((x, y, z), radius)
