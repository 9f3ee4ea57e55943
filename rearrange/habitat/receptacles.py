"""Our receptacles as Habitat's: boxes above a surface, in the `user_defined` part of a config.

`position` is its centre, `scale` its half sizes; the bottom lies on the surface (hab-spec 2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rearrange.habitat.axes import half_to_habitat, to_habitat
from rearrange.sim.home.furniture import Surface

HALF_HEIGHT = 0.01  # m: objects are let go within this box


def receptacle_box(
    surface: Surface, origin: Sequence[float] = (0.0, 0.0, 0.0), is_y_up: bool = True
) -> dict[str, Any]:
    """The box of a surface.

    Args:
        origin: of the frame that the box is given in, in the piece's frame, m.
        is_y_up: whether that frame has Habitat's axes; ours otherwise.
    """
    x, y, z = (p - o for p, o in zip(surface.pos, origin, strict=True))
    pos, half, up = (x, y, z + HALF_HEIGHT), (*surface.half, HALF_HEIGHT), (0.0, 0.0, 1.0)
    if is_y_up:
        pos, half, up = to_habitat(pos), half_to_habitat(half), to_habitat(up)
    numbers = {"position": pos, "scale": half, "up": up}
    return {key: [round(v, 9) + 0.0 for v in value] for key, value in numbers.items()}


def user_defined(surfaces: Iterable[Surface]) -> dict[str, Any]:
    """The part of an object's config, by the receptacles' names."""
    return {surface.name: receptacle_box(surface) for surface in surfaces}
