"""The start state of an episode that a reset writes into the simulation, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


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
