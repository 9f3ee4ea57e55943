"""The kitchen counter with its drawers and the fridge with its doors, as URDFs and configs.

Link numbers are HAB's (`schema.LINKS`), and so are the joint positions: two of the fridge, the top
door second; eight of the counter, the position of a drawer having its link's number (hab-spec 11).
Ours has seven drawers: the eighth is a link without shape that comes first and cannot move.

The fridge's links have our axes, as its marker needs; the counter's have Habitat's, since
habitat-lab lays out where the robot starts before a drawer in the drawer's own x and z.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rearrange.habitat.axes import TO_Z_UP_RPY, half_to_habitat, receptacle_box, to_habitat
from rearrange.habitat.contact import FRICTION, brake_impulse
from rearrange.habitat.urdf import MOVED, STATIC, Joint, Link, Robot, Shape
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import Layout
from rearrange.tasks.episodes.schema import LINKS

COUNTER, FRIDGE = "kitchen_counter", "fridge"
_BODY = "body"
_BODY_MASS = 70.0  # kg; neither body moves
_SPARE_TRAVEL = 1e-4  # m
# Friction and damping of the joints in our model (`sim.model`), at the speeds of opening them.
_DRAWER_BRAKE = brake_impulse(damping=8.0, speed=0.25, friction=2.0)
_DOOR_BRAKE = brake_impulse(damping=1.0, speed=0.5, friction=0.5)
_Part = tuple[Sequence[float], Sequence[float]]  # centre, half sizes


def counter_robot(layout: Layout) -> Robot:
    """The counter's URDF. Its frame: the piece's, y up."""
    robot = Robot(COUNTER, friction=FRICTION)
    boxes = [(b.pos, b.half, b.rgb) for b in layout.shapes["counter"].boxes]
    carcass = tuple(_y_up(*b) for b in boxes)
    robot.links.append(Link(COUNTER, _BODY_MASS, shapes=carcass, group=STATIC))
    robot.links.append(Link("spare"))
    robot.joints.append(
        Joint("joint_0_spare", "prismatic", COUNTER, "spare", limits=(0.0, _SPARE_TRAVEL))
    )
    for joint, (_, number, link) in _links_of("counter"):
        y, bottom, top = layout.counter.drawers[joint]
        parts = fur.drawer_boxes(bottom, top, layout.counter.half_widths[joint])
        shapes = []
        for part, (pos, half) in parts.items():
            rgb = {"front": layout.counter.rgb, "handle": _HANDLE}.get(part, fur.WOOD)
            shapes.append(_y_up(pos, half, rgb))
        mass = fur.DRAWER_MASS / 6 * (len(parts) - 1) + fur.HANDLE_MASS
        masses = [fur.HANDLE_MASS if p == "handle" else fur.DRAWER_MASS / 6 for p in parts]
        x_, y_, z_ = _inertia(list(parts.values()), masses)
        robot.links.append(Link(link, mass, (x_, z_, y_), tuple(shapes), MOVED))
        robot.joints.append(
            Joint(
                f"joint_{number}_{link}", "prismatic", COUNTER, link,
                origin=to_habitat((0.0, y, (bottom + top) / 2)), limits=(0.0, fur.DRAWER_TRAVEL),
                damping=_DRAWER_BRAKE,
            )
        )  # fmt: skip
    return robot


def fridge_robot(layout: Layout) -> Robot:
    """The fridge's URDF. Its root's frame: the piece's, y up; all else z up."""
    robot, fridge = Robot(FRIDGE, friction=FRICTION), layout.fridge
    shapes = tuple(_z_up(b.pos, b.half, b.rgb) for b in layout.shapes["fridge"].boxes)
    robot.links += [Link("root"), Link(_BODY, _BODY_MASS, shapes=shapes, group=STATIC)]
    robot.joints.append(Joint("root_to_body", "fixed", "root", _BODY, rpy=TO_Z_UP_RPY))
    for joint, (_, number, link) in _links_of("fridge"):
        bottom, top, mass = fridge.doors[joint]
        parts = fur.door_boxes(joint, fridge)
        masses = [mass, fur.HANDLE_MASS][: len(parts)]
        colours = [fridge.rgb, _HANDLE]
        shapes = [_z_up(*part, rgb) for part, rgb in zip(parts.values(), colours, strict=False)]
        inertia = _inertia(list(parts.values()), masses)
        robot.links.append(Link(link, sum(masses), inertia, tuple(shapes), MOVED))
        robot.joints.append(
            Joint(
                f"joint_{number}_{link}", "revolute", _BODY, link,
                origin=(*fridge.hinge, (bottom + top) / 2), axis=(0.0, 0.0, fridge.side),
                limits=(0.0, fur.FRIDGE_DOOR_RANGE), damping=_DOOR_BRAKE,
            )
        )  # fmt: skip
    return robot


def articulated_config(name: str, layout: Layout) -> dict[str, Any]:
    """The `ao_config.json` beside the URDF, with its receptacles."""
    piece = {COUNTER: "counter", FRIDGE: "fridge"}[name]
    receptacles = {}
    for surface in layout.shapes[piece].surfaces:
        if surface.kind == "drawer":
            assert surface.joint is not None
            y, bottom, top = layout.counter.drawers[surface.joint]
            box = receptacle_box(surface, (0.0, y, (bottom + top) / 2))
            link = LINKS[surface.joint][2]
        elif piece == "fridge":
            box, link = receptacle_box(surface, is_y_up=False), _BODY
        else:
            box, link = receptacle_box(surface), COUNTER
        receptacles[surface.name] = box | {"parent_link": link}
    return {
        "urdf_filepath": f"{name}.urdf",
        "render_mode": "link_visuals",
        "base_type": "fixed",
        "inertia_source": "urdf",
        "user_defined": receptacles,
    }


_HANDLE = (0.25, 0.25, 0.27)


def _links_of(piece: str) -> list[tuple[str, tuple[str, int, str]]]:
    handle = fur.PARENTS[piece]
    found = [(joint, entry) for joint, entry in LINKS.items() if entry[0] == handle]
    return sorted(found, key=lambda item: item[1][1])


def _y_up(pos, half, rgb) -> Shape:
    return _z_up(to_habitat(pos), half_to_habitat(half), rgb)


def _z_up(pos, half, rgb) -> Shape:
    x, y, z = (float(v) for v in pos)
    return Shape("box", tuple(2.0 * float(v) for v in half), (x, y, z), rgb=tuple(rgb))


def _inertia(parts: list[_Part], masses: list[float]) -> tuple[float, float, float]:
    """Diagonal inertia of boxes about the origin, our axes, kg m^2."""
    total = np.zeros(3)
    for (pos, half), mass in zip(parts, masses, strict=True):
        p, h = np.asarray(pos) ** 2, np.asarray(half) ** 2
        total += mass * ((h.sum() - h) / 3 + p.sum() - p)
    x, y, z = (float(v) for v in total)
    return x, y, z
