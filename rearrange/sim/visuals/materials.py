"""Materials of furniture, chosen by its colour in the simulation."""

from __future__ import annotations

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Box
from rearrange.sim.homes.kinds import CERAMIC, FABRICS, GREENS, WOODS
from rearrange.sim.visuals import prints
from rearrange.sim.visuals.plants import add_leaves
from rearrange.sim.visuals.visual_builder import Colour, VisualBuilder

# The palette of HAB's homes is a little dull: what each colour is drawn as.
TONES: dict[Colour, Colour] = {
    fur.WOOD: (0.74, 0.55, 0.36),
    fur.DARK_WOOD: (0.47, 0.31, 0.20),
    fur.WHITE: (0.93, 0.92, 0.89),
    fur.STONE: (0.44, 0.45, 0.47),
    fur.FABRIC: (0.34, 0.47, 0.58),
    fur.STEEL: (0.80, 0.81, 0.83),
}


def tone(rgb: Colour) -> Colour:
    """What a colour of the simulation is drawn as."""
    return TONES.get(rgb, rgb)


def material(visual_builder: VisualBuilder, rgb: Colour) -> dict:
    """Texture and gloss of what has this colour in the simulation."""
    if rgb in WOODS or rgb in (fur.WOOD, fur.DARK_WOOD):
        return {"texture": visual_builder.texture("wood", prints.wood), "gloss": 0.18}
    if rgb in FABRICS or rgb == fur.FABRIC:
        return {"texture": visual_builder.texture("cloth", prints.cloth)}
    if rgb == fur.STONE:
        return {"texture": visual_builder.texture("stone", prints.stone), "gloss": 0.45}
    if rgb == fur.STEEL:
        return {"gloss": 0.6}
    return {"gloss": 0.5 if rgb == CERAMIC else 0.15 if sum(rgb) > 0.5 else 0.9}


def add_box(visual_builder: VisualBuilder, body: int, box: Box, radius: float = 0.006) -> None:
    """A box of the material that its colour stands for; leaves, if it is green."""
    if box.rgb in GREENS:
        add_leaves(visual_builder, body, box)
        return
    if box.rgb in FABRICS or box.rgb == fur.FABRIC:
        radius = max(radius, 0.03)
    visual_builder.box(
        body, box.pos, box.half, tone(box.rgb), radius, **material(visual_builder, box.rgb)
    )
