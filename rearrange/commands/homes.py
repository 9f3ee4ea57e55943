"""`rearrange homes`: checks, draws, generates and measures homes."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import TYPE_CHECKING

from tqdm import tqdm

from rearrange.configs.schema import HomesCfg
from rearrange.errors import UserError
from rearrange.eval.runner import check_name
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_text, prepare_file, prepare_output
from rearrange.system.registry import import_module

if TYPE_CHECKING:
    from rearrange.sim.home.house import Layout

SCALE = 40  # pixels a metre
MARGIN = 0.25  # m
_FILLS = {"counter": "#7a9cc6", "worktop": "#7a9cc6", "run": "#7a9cc6", "island": "#a9bdd6",
          "fridge": "#d2786e"}  # fmt: skip
PLAIN_FILL = "#e0cfb4"


@dataclass(frozen=True)
class Drawn:
    """What a drawing and a line need of a home."""

    name: str
    layout: "Layout"
    rooms: tuple[tuple[str, tuple[float, ...]], ...]  # name, x0, y0, x1, y1 in m
    kinds: Mapping[str, str]
    about: str


def run(cfg: HomesCfg) -> int:
    """Does it; UserError for a home that is wrong."""
    if cfg.module is not None:
        import_module(cfg.module, f"homes={cfg.homes}")
    if cfg.what == "generate":
        return _generate(cfg)
    if cfg.what == "measure":
        return _measure(cfg)
    path = prepare_output(cfg.output)  # better said before the work
    homes = list(_homes(cfg))
    if cfg.what == "check":
        for home in homes:
            x, y = home.layout.bounds[2:]
            pieces = len(home.layout.pieces)
            print(
                f"{home.name}: {x * y:.0f} m2, {len(home.rooms)} rooms, {pieces} pieces, "
                f"{len(home.layout.receptacles)} receptacles, all reached; {home.about}"
            )
        return 0
    assert path is not None  # the settings see to it, here and in `_generate`
    atomic_write_text(path, gallery(homes))
    print(f"{len(homes)} floor plans: {path}")
    return 0


def _homes(cfg: HomesCfg) -> Iterable[Drawn]:
    from rearrange.sim.homes.custom import SUFFIX, custom_home
    from rearrange.sim.homes.procedural import make_home

    if cfg.homes.endswith(SUFFIX):
        own = custom_home(cfg.homes)
        name = cfg.homes.encode(errors="replace").decode()  # a file's name may be no text
        yield Drawn(name, own.layout, tuple(own.rooms), own.kinds, "a home of your own")
        return
    for name in _names(cfg):
        home = make_home(name)
        rooms = tuple((r.kind, tuple(v / 1000 for v in r.rect)) for r in home.plan.rooms)
        about = f"kitchen: {home.furnished.kitchen}"
        yield Drawn(name, home.layout, rooms, home.furnished.kinds, about)


def _names(cfg: HomesCfg) -> list[str]:
    from rearrange.sim.homes.layout import PROCEDURAL, SPLITS, layout_ids

    check_name("split", cfg.split, SPLITS)
    if cfg.homes != PROCEDURAL:
        raise UserError(f"homes must be procedural or a file of a home (.json), got {cfg.homes}")
    names = layout_ids(cfg.split, PROCEDURAL)
    if cfg.index + cfg.num_homes > len(names):
        last = cfg.index + cfg.num_homes - 1
        raise UserError(
            f"index and num_homes must end at {len(names) - 1} in {cfg.split}, got {last}"
        )
    return list(names[cfg.index : cfg.index + cfg.num_homes])


def floor_plan_svg(home: Drawn) -> str:
    """The home seen from above, y up."""
    layout = home.layout
    x0, y0, x1, y1 = layout.bounds
    width, height = (int((v + 2 * MARGIN) * SCALE) for v in (x1 - x0, y1 - y0))

    def at(x: float, y: float) -> str:
        return f"{(x - x0 + MARGIN) * SCALE:.1f},{(y1 - y + MARGIN) * SCALE:.1f}"

    def polygon(x: float, y: float, hx: float, hy: float, yaw: float, style: str) -> str:
        c, s = math.cos(yaw), math.sin(yaw)
        ends = ((hx, hy), (hx, -hy), (-hx, -hy), (-hx, hy))
        points = " ".join(at(x + c * a - s * b, y + s * a + c * b) for a, b in ends)
        return f'<polygon points="{points}" {style}/>'

    def text(x: float, y: float, label: str, size: int, fill: str) -> str:
        left, top = at(x, y).split(",")
        style = f'font-size="{size}" fill="{fill}" text-anchor="middle"'
        return f'<text x="{left}" y="{top}" {style}>{escape(label)}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif">']  # fmt: skip
    parts += [text((a + c) / 2, (b + d) / 2, name, 13, "#888") for name, (a, b, c, d) in home.rooms]
    for slot, (x, y, yaw) in layout.pieces.items():
        hx, hy = layout.shapes[slot].half
        kind = home.kinds.get(slot, slot)
        fill = _FILLS.get(kind, PLAIN_FILL)
        parts.append(polygon(x, y, hx, hy, yaw, f'fill="{fill}" stroke="#555"'))
        ahead = at(x + hx * math.cos(yaw), y + hx * math.sin(yaw)).split(",")
        middle = at(x, y).split(",")
        parts.append(
            f'<line x1="{middle[0]}" y1="{middle[1]}" x2="{ahead[0]}" y2="{ahead[1]}" '
            'stroke="#555"/>'
        )
        parts.append(text(x, y, kind, 8, "#222"))
    for x, y, hx, hy, yaw in layout.walls:
        parts.append(polygon(x, y, hx, hy, yaw, 'fill="#333"'))
    hinge, along, _ = layout.door_frame(1.5)
    tip = hinge + layout.fridge.door_width * along
    ends = [*at(*hinge).split(","), *at(*tip).split(",")]
    parts.append('<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="#d2786e"/>'.format(*ends))
    return "\n".join([*parts, "</svg>"])


def gallery(homes: list[Drawn]) -> str:
    """A page of floor plans."""
    figures = []
    for home in homes:
        x, y = home.layout.bounds[2:]
        line = f"{home.name}: {x * y:.0f} m2, {len(home.rooms)} rooms, {home.about}"
        figures.append(
            f"<figure>{floor_plan_svg(home)}<figcaption>{escape(line)}</figcaption></figure>"
        )
    return (
        '<!doctype html><meta charset="utf-8"><title>Homes</title>'
        "<style>figure{display:inline-block;margin:12px;vertical-align:top}"
        "figcaption{font:13px sans-serif}</style>\n" + "\n".join(figures) + "\n"
    )


def _generate(cfg: HomesCfg) -> int:
    """Writes a procedural home as a file of one's own: rooms, walls, and furniture by its sizes."""
    from rearrange.sim.homes.custom import custom_home, from_procedural
    from rearrange.sim.homes.procedural import make_home

    name = _names(cfg)[0]
    assert cfg.output is not None
    path = prepare_file(user_path(cfg.output))
    text = json.dumps(from_procedural(make_home(name)), indent=1) + "\n"
    if path.exists() and path.read_bytes() != text.encode():
        raise UserError(f"{path} is there already: choose another output, or remove it")
    atomic_write_text(path, text)
    custom_home(str(path))
    print(f"{name}: {path}")
    return 0


def _measure(cfg: HomesCfg) -> int:
    """Prints how large a split's homes are, how far the ways, and how alike the nearest homes."""
    from rearrange.sim.homes.diversity import nearest_distances, statistics_of
    from rearrange.sim.homes.layout import HOMES, SPLITS, layout_ids

    check_name("split", cfg.split, SPLITS)
    check_name("homes", cfg.homes, HOMES)
    names = layout_ids(cfg.split, cfg.homes)
    homes = [statistics_of(name) for name in tqdm(names, unit="home", disable=None)]
    rows = [
        ("area, m2", [home.area for home in homes]),
        ("free floor, m2", [home.free_area for home in homes]),
        ("receptacles", [home.num_receptacles for home in homes]),
        ("way, m, mean", [home.mean_way for home in homes]),
        ("way, m, longest", [home.longest_way for home in homes]),
        ("way over straight line", [home.detour for home in homes]),
    ]
    for split in dict.fromkeys((cfg.split, "train")):
        others = layout_ids(split, cfg.homes)
        rows.append((f"to the nearest of {split}", list(nearest_distances(names, others))))
    print(f"{len(names)} homes: {cfg.homes}, {cfg.split}")
    print(f"{'':26} {'least':>8} {'median':>8} {'most':>8}")
    for title, values in rows:
        print(f"{title:26} {min(values):8.2f} {median(values):8.2f} {max(values):8.2f}")
    return 0
