"""Builds the visuals of a home: the simulation's bodies stay, their appearance gets richer.

    sim.model, layout, objects --> VisualBuilder of parts --> Visuals for the Painter

Built anew for every episode (a fraction of a second); the model that is stepped is only read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import object_kind
from rearrange.sim.house_writer import FRONTS
from rearrange.sim.model import object_body
from rearrange.sim.pictures.triangles import Solids, Visuals
from rearrange.sim.visuals.furniture import add_piece
from rearrange.sim.visuals.kitchen import add_door, add_drawer
from rearrange.sim.visuals.materials import add_box
from rearrange.sim.visuals.objects import add_object
from rearrange.sim.visuals.robot import add_robot
from rearrange.sim.visuals.room import add_room
from rearrange.sim.visuals.visual_builder import VisualBuilder

GHOST = (0.25, 0.95, 0.50)


@dataclass
class HomeVisuals:
    """A home's visuals, and which parts belong to what."""

    visuals: Visuals
    objects: dict[int, list[int]] = field(default_factory=dict)
    """Parts of each object that has a look."""
    ghosts: dict[int, list[int]] = field(default_factory=dict)
    """Parts of each object's copy at its goal."""
    pieces: dict[str, list[int]] = field(default_factory=dict)
    """Parts of each piece of furniture, drawers and doors included."""


def build_visuals(sim: Any, goals: dict[int, Any] | None = None) -> HomeVisuals:
    """Visuals of the home that a simulation is in.

    Args:
        goals: object -> place of its centre (m, world) where a translucent copy is to stand; or
            None.
    """
    model, layout = sim.model, sim.layout
    visual_builder = VisualBuilder()
    replaced = add_robot(visual_builder, model)
    add_room(visual_builder, model, layout)
    done = HomeVisuals(Visuals(Solids((), ()), ()))
    bodies = []
    for name, piece in layout.shapes.items():
        if name not in layout.pieces:
            continue
        first = len(visual_builder.parts)
        body = model.body(name).id
        add_piece(visual_builder, body, name, piece)
        bodies.append(body)
        if name == "counter":
            bodies += _add_counter(visual_builder, model, layout)
        if name == "fridge":
            bodies += _add_fridge(visual_builder, model, layout)
        done.pieces[name] = list(range(first, len(visual_builder.parts)))
    for index, placement in enumerate(sim.scene.objects):
        first, body = len(visual_builder.parts), model.body(object_body(index)).id
        if not add_object(visual_builder, body, object_kind(placement.kind)):
            continue
        bodies.append(body)
        last = len(visual_builder.parts)
        done.objects[index] = list(range(first, last))
        if goals and goals.get(index) is not None:
            _copy_to(visual_builder, first, last, goals[index])
            done.ghosts[index] = list(range(last, len(visual_builder.parts)))
    replaced += np.flatnonzero(np.isin(model.geom_bodyid, bodies)).tolist()
    done.visuals = Visuals(Solids(visual_builder.parts, visual_builder.textures), replaced)
    return done


def _add_counter(visual_builder: VisualBuilder, model: Any, layout: Any) -> list[int]:
    bodies, counter = [], layout.counter
    for joint, (_, bottom, top) in counter.drawers.items():
        bodies.append(model.body(joint).id)
        boxes = fur.drawer_boxes(bottom, top, counter.half_widths[joint])
        add_drawer(visual_builder, bodies[-1], boxes, counter.rgb)
    if counter.fronts:
        bodies.append(model.body(FRONTS).id)
        for box in counter.fronts:
            add_box(visual_builder, bodies[-1], box, 0.004)
    return bodies


def _add_fridge(visual_builder: VisualBuilder, model: Any, layout: Any) -> list[int]:
    bodies = []
    for joint in layout.fridge.doors:
        bodies.append(model.body(joint).id)
        add_door(
            visual_builder, bodies[-1], fur.door_boxes(joint, layout.fridge), layout.fridge.rgb
        )
    return bodies


def _copy_to(
    visual_builder: VisualBuilder, first: int, last: int, goal: tuple[float, float, float]
) -> None:
    for part in visual_builder.parts[first:last]:
        place = tuple(float(a + b) for a, b in zip(goal, part.pos, strict=True))
        visual_builder.copy_part(part, body=0, pos=place, rgb=GHOST, texture=-1)
