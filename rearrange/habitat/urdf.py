"""URDF text: links with shapes, joints between them.

What Habitat makes of it (habitat-sim 0.3.4, its URDF importer):

- A link's frame is its inertial frame. So that links lie where their joints say, every inertial
  frame here is the link's own, and the inertia is that about the link's origin.
- `damping` is the most impulse, N s or N m s, with which a motor brakes the joint in each physics
  step: a friction of `damping / dt`. `friction` is not used.
- Links are numbered depth first, children in the order of their joints' names.
- All links are in the collision group of robots, which what the robot holds passes through, unless
  their shapes name another.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field

Vector = tuple[float, float, float]
_LEAST_MASS = 0.01  # kg: a moving link without mass has no dynamics
_LEAST_INERTIA = 1e-5  # kg m^2
# Habitat's groups (CollisionGroups): what never moves, and what collides with all but that and its
# like, as drawers and doors, which the carcass around them must not stop.
STATIC, MOVED = 2, 4
_FROM_Y_UP_RPY = (math.pi / 2, 0.0, 0.0)


@dataclass(frozen=True)
class Shape:
    """What a link looks like and collides with; sizes in m, `pos` and `rpy` in the link's frame."""

    kind: str  # "box" | "cylinder" | "capsule": the last two along their z
    size: tuple[float, ...]  # full sizes of a box; radius and length, a capsule's without its caps
    pos: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)
    rgb: Vector = (0.8, 0.8, 0.8)


@dataclass(frozen=True)
class Link:
    """A rigid part. `inertia`: diagonal, about its origin, kg m^2."""

    name: str
    mass: float = _LEAST_MASS
    inertia: Vector = (_LEAST_INERTIA, _LEAST_INERTIA, _LEAST_INERTIA)
    shapes: tuple[Shape, ...] = ()
    group: int | None = None
    """Habitat's collision group: `STATIC`, `MOVED`; None: that of robots."""
    inside: str | None = None
    """A .glb beside the URDF that is drawn too, y up: the shapes from within."""


@dataclass(frozen=True)
class Joint:
    """How a child hangs on its parent. Limits in rad or m, effort in N m or N."""

    name: str
    kind: str  # "fixed" | "revolute" | "prismatic" | "continuous"
    parent: str
    child: str
    origin: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)
    axis: Vector = (1.0, 0.0, 0.0)
    limits: tuple[float, float] = (0.0, 0.0)
    effort: float = 100.0
    velocity: float = 10.0
    damping: float = 0.0


@dataclass
class Robot:
    """A tree of links; the one without a parent joint is the root."""

    name: str
    links: list[Link] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    friction: float | None = None
    """Of all that collides; None: Habitat's."""

    def text(self) -> str:
        """The URDF file."""
        root = ET.Element("robot", name=self.name)
        for link in self.links:
            _add_link(root, link, self.friction)
        for joint in self.joints:
            _add_joint(root, joint)
        ET.indent(root)
        return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"

    def link_ids(self) -> dict[str, int]:
        """Habitat's number of each link; the root's is -1."""
        below: dict[str, list[Joint]] = {}
        for joint in sorted(self.joints, key=lambda joint: joint.name):
            below.setdefault(joint.parent, []).append(joint)
        children = {joint.child for joint in self.joints}
        (root,) = (link.name for link in self.links if link.name not in children)
        ids: dict[str, int] = {}

        def number(name: str) -> None:
            ids[name] = len(ids) - 1
            for joint in below.get(name, []):
                number(joint.child)

        number(root)
        return ids

    def moving_links(self) -> list[str]:
        """Links in the order of Habitat's joint positions: those whose joint can move."""
        movable = {joint.child for joint in self.joints if joint.kind != "fixed"}
        return [name for name in self.link_ids() if name in movable]


def along(start: Sequence[float], end: Sequence[float]) -> tuple[Vector, Vector, float]:
    """Middle, roll-pitch-yaw and length of what runs along its z from one point to another."""
    way = [float(b) - float(a) for a, b in zip(start, end, strict=True)]
    length = math.hypot(*way)
    middle = tuple((float(a) + float(b)) / 2 for a, b in zip(start, end, strict=True))
    pitch, yaw = math.acos(max(-1.0, min(1.0, way[2] / length))), math.atan2(way[1], way[0])
    return (middle[0], middle[1], middle[2]), (0.0, pitch, yaw), length


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value + 0.0:.9g}" for value in values)


def _add_link(root: ET.Element, link: Link, friction: float | None) -> None:
    element = ET.SubElement(root, "link", name=link.name)
    if friction is not None and link.shapes:
        contact = ET.SubElement(element, "contact")
        ET.SubElement(contact, "lateral_friction", value=f"{friction:.9g}")
    inertial = ET.SubElement(element, "inertial")
    ET.SubElement(inertial, "origin", xyz="0 0 0", rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=f"{link.mass:.9g}")
    diagonal: dict[str, float] = dict(zip(("ixx", "iyy", "izz"), link.inertia, strict=True))
    moments = {name: f"{diagonal.get(name, 0.0):.9g}" for name in
               ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}  # fmt: skip
    ET.SubElement(inertial, "inertia", moments)
    for shape in link.shapes:
        for use in ("visual", "collision"):
            part = ET.SubElement(element, use)
            if use == "collision" and link.group is not None:
                part.set("group", str(link.group))
            ET.SubElement(part, "origin", xyz=_numbers(shape.pos), rpy=_numbers(shape.rpy))
            geometry = ET.SubElement(part, "geometry")
            if shape.kind == "box":
                ET.SubElement(geometry, "box", size=_numbers(shape.size))
            else:
                radius, length = (f"{value:.9g}" for value in shape.size)
                ET.SubElement(geometry, shape.kind, radius=radius, length=length)
            if use == "visual":
                material = ET.SubElement(part, "material", name=_colour_name(shape.rgb))
                ET.SubElement(material, "color", rgba=_numbers((*shape.rgb, 1.0)))

    if link.inside is not None:
        part = ET.SubElement(element, "visual")
        ET.SubElement(part, "origin", xyz="0 0 0", rpy=_numbers(_FROM_Y_UP_RPY))
        ET.SubElement(ET.SubElement(part, "geometry"), "mesh", filename=link.inside)


def _colour_name(rgb: Vector) -> str:
    return "rgb_" + "_".join(f"{round(255 * value):03d}" for value in rgb)


def _add_joint(root: ET.Element, joint: Joint) -> None:
    element = ET.SubElement(root, "joint", name=joint.name, type=joint.kind)
    ET.SubElement(element, "origin", xyz=_numbers(joint.origin), rpy=_numbers(joint.rpy))
    ET.SubElement(element, "parent", link=joint.parent)
    ET.SubElement(element, "child", link=joint.child)
    if joint.kind == "fixed":
        return
    ET.SubElement(element, "axis", xyz=_numbers(joint.axis))
    limit = {"effort": f"{joint.effort:.9g}", "velocity": f"{joint.velocity:.9g}"}
    if joint.kind != "continuous":
        lower, upper = joint.limits
        limit |= {"lower": f"{lower:.9g}", "upper": f"{upper:.9g}"}
    ET.SubElement(element, "limit", limit)
    ET.SubElement(element, "dynamics", damping=f"{joint.damping:.9g}", friction="0")
