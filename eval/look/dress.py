"""Dresses a home for pictures: the simulation's bodies stay, what is seen on them is richer.

    sim.model, layout, objects --> Wardrobe of parts --> Clothes for the Painter

Built anew for every episode (a fraction of a second); the model that is stepped is only read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rearrange.eval.look.furniture import dress_piece
from rearrange.eval.look.kitchen import dress_door, dress_drawer
from rearrange.eval.look.materials import dress_box
from rearrange.eval.look.objects import dress_object
from rearrange.eval.look.robot import dress_robot
from rearrange.eval.look.room import dress_room
from rearrange.eval.look.wardrobe import Wardrobe
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import object_kind
from rearrange.sim.house_numbers import FRONTS
from rearrange.sim.model import object_body
from rearrange.sim.pictures.triangles import Clothes, Solids

GHOST = (0.25, 0.95, 0.50)


@dataclass
class Dressed:
    """A home's clothes, and which parts belong to what."""

    clothes: Clothes
    objects: dict[int, list[int]] = field(default_factory=dict)
    """Parts of each object that has a look."""
    ghosts: dict[int, list[int]] = field(default_factory=dict)
    """Parts of each object's copy at its goal."""
    pieces: dict[str, list[int]] = field(default_factory=dict)
    """Parts of each piece of furniture, drawers and doors included."""


def dress(sim: Any, goals: dict[int, Any] | None = None) -> Dressed:
    """Clothes for the home that a simulation is in.

    Args:
        goals: object -> place of its centre (m, world) where a translucent copy is to stand; or
            None.
    """
    model, layout = sim.model, sim.layout
    wardrobe = Wardrobe()
    replaced = dress_robot(wardrobe, model)
    dress_room(wardrobe, model, layout)
    done = Dressed(Clothes(Solids((), ()), ()))
    bodies = []
    for name, piece in layout.shapes.items():
        if name not in layout.pieces:
            continue
        first = len(wardrobe.parts)
        body = model.body(name).id
        dress_piece(wardrobe, body, name, piece)
        bodies.append(body)
        if name == "counter":
            bodies += _dress_counter(wardrobe, model, layout)
        if name == "fridge":
            bodies += _dress_fridge(wardrobe, model, layout)
        done.pieces[name] = list(range(first, len(wardrobe.parts)))
    for index, placement in enumerate(sim.scene.objects):
        first, body = len(wardrobe.parts), model.body(object_body(index)).id
        if not dress_object(wardrobe, body, object_kind(placement.kind)):
            continue
        bodies.append(body)
        last = len(wardrobe.parts)
        done.objects[index] = list(range(first, last))
        if goals and goals.get(index) is not None:
            _copy_to(wardrobe, first, last, goals[index])
            done.ghosts[index] = list(range(last, len(wardrobe.parts)))
    replaced += np.flatnonzero(np.isin(model.geom_bodyid, bodies)).tolist()
    done.clothes = Clothes(Solids(wardrobe.parts, wardrobe.textures), replaced)
    return done


def _dress_counter(wardrobe: Wardrobe, model: Any, layout: Any) -> list[int]:
    bodies, counter = [], layout.counter
    for joint, (_, bottom, top) in counter.drawers.items():
        bodies.append(model.body(joint).id)
        boxes = fur.drawer_boxes(bottom, top, counter.half_widths[joint])
        dress_drawer(wardrobe, bodies[-1], boxes, counter.rgb)
    if counter.fronts:
        bodies.append(model.body(FRONTS).id)
        for box in counter.fronts:
            dress_box(wardrobe, bodies[-1], box, 0.004)
    return bodies


def _dress_fridge(wardrobe: Wardrobe, model: Any, layout: Any) -> list[int]:
    bodies = []
    for joint in layout.fridge.doors:
        bodies.append(model.body(joint).id)
        dress_door(wardrobe, bodies[-1], fur.door_boxes(joint, layout.fridge), layout.fridge.rgb)
    return bodies


def _copy_to(wardrobe: Wardrobe, first: int, last: int, goal: tuple[float, float, float]) -> None:
    for part in wardrobe.parts[first:last]:
        place = tuple(float(a + b) for a, b in zip(goal, part.pos, strict=True))
        wardrobe.copy_part(part, body=0, pos=place, rgb=GHOST, texture=-1)
