"""The start state of an episode that a reset writes into the simulation, as plain data.

What it must be is checked before the world is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rearrange.errors import UserError
from rearrange.sim.home.house import Layout
from rearrange.sim.home.objects import check_objects
from rearrange.sim.robot import fetch


@dataclass(frozen=True)
class ObjectPlacement:
    """One loose object: its kind (`objects.KINDS`) and the pose of its centre in the world."""

    kind: str
    pos: tuple[float, float, float]  # m
    quat: tuple[float, float, float, float]  # wxyz


@dataclass(frozen=True)
class Scene:
    """Start state of the world. Equal scenes give equal worlds, whatever happened before."""

    layout_id: str
    objects: tuple[ObjectPlacement, ...]
    base: tuple[float, float, float]  # x, y [m], yaw [rad]
    arm: tuple[float, ...]  # [7] rad
    joints: dict[str, float] = field(default_factory=dict)
    """Articulated start states by joint name (m or rad); a joint not named is closed (0)."""
    home_digest: str = field(default="", compare=False)
    """`digest` of the layout it was made for; empty: of none that is from a file, or unknown."""


def check_scene(scene: Scene, joints: Mapping[str, tuple[float, float]]) -> None:
    """Raises UserError for unknown object kinds and joints, and for what is out of range.

    Args:
        scene: numbers of it are finite.
        joints: of the furniture, lower and upper limit, m or rad.
    """
    for name, value in scene.joints.items():
        if name not in joints:
            raise UserError(f"scene joint must be one of {', '.join(joints)}; got {name!r}")
        _check_range(f"joint {name}", value, *joints[name])
    for joint, value in zip(fetch.ARM_JOINTS, scene.arm, strict=True):
        _check_range(f"arm joint {joint.name}", value, joint.lower, joint.upper)
    check_objects([placed.kind for placed in scene.objects])


def check_places(scene: Scene, layout: Layout) -> None:
    """Raises UserError unless base and objects are in the home, as those of episodes have to be."""
    x, y, _ = scene.base
    _check_place("the base", (x, y, 0.0), layout)
    for placed in scene.objects:
        _check_place(f"the {placed.kind}", placed.pos, layout)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UserError(f"{name} must lie in [{low:g}, {high:g}], got {value:g}")


def _check_place(name: str, pos: tuple[float, float, float], layout: Layout) -> None:
    if not layout.holds(pos):
        x, y, z = pos
        raise UserError(f"{name} must lie in {layout.extent}, got x {x:g}, y {y:g}, z {z:g}")
