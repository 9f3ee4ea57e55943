"""The text in a frame: current step, plan, progress, result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from PIL import ImageDraw, ImageFont

from rearrange.planner.home.descriptions import describe_progress

INK, QUIET, FAINT, PAPER = (240, 240, 238), (166, 170, 176), (92, 98, 106), (22, 25, 30)
GOOD, BAD, ACCENT = (92, 204, 124), (240, 104, 96), (255, 190, 70)
NUM_PLAN_LINES = 4
RIGHT = 330  # pixels of the words' width for how far it is
MIN_BARS = 4  # beside one another where a task has fewer stages, lest they get too wide
Area = tuple[int, int, int, int]


@dataclass
class Caption:
    """The words of a frame."""

    title: str
    status: str = ""
    """The running step, said by the agent."""
    plan: Sequence[str] = ()
    stages: dict[str, bool] = field(default_factory=dict)
    result: str = ""
    """Shown large at the end: "success" or what went wrong."""
    speed: str = ""
    """How much faster than the robot the film runs: "3x"."""
    clock: str = ""
    """How long the robot has been at it: "48 s"."""
    focus: int | None = None
    """The object that the running step is about."""


def write(pen: ImageDraw.ImageDraw, area: Area, caption: Caption) -> None:
    """The words below the picture, in left, top, right, bottom."""
    left, top, right, bottom = area
    pen.text((left + 20, top + 10), caption.title, fill=QUIET, font=font(14))
    lines, running = around(caption.plan)
    y = top + 36
    for row, line in enumerate(lines):
        is_running = row == running
        height = 40 if is_running else 28
        _plan_line(pen, left + 20, y, right - RIGHT - left - 40, line, is_running, height)
        y += height
    _progress(pen, right - RIGHT, top + 36, caption)


def write_result(pen: ImageDraw.ImageDraw, area: Area, result: str) -> None:
    """How it ended, across the foot of the picture."""
    left, _, right, bottom = area
    is_good = result == "success"
    text = "Done" if is_good else result[:1].upper() + result[1:]
    letters = font(34 if len(text) < 40 else 22)
    pen.rectangle((left, bottom - 64, right, bottom), fill=PAPER)
    pen.rectangle((left, bottom - 64, left + 8, bottom), fill=GOOD if is_good else BAD)
    pen.text(
        (left + 28, bottom - 32), text, fill=GOOD if is_good else BAD, font=letters, anchor="lm"
    )


def badge(pen: ImageDraw.ImageDraw, place: tuple[int, int], text: str, size: int = 15) -> None:
    """Words on a dark ground; `place` is their upper left corner."""
    x, y = place
    box = pen.textbbox((x + 8, y + 4), text, font=font(size))
    pen.rounded_rectangle((x, y, box[2] + 8, box[3] + 6), 6, fill=PAPER)
    pen.text((x + 8, y + 4), text, fill=INK, font=font(size))


def around(plan: Sequence[str]) -> tuple[list[str], int | None]:
    """The lines of the plan near the running one, marked with `>`, and which of them it is."""
    running = next((i for i, line in enumerate(plan) if line.startswith(">")), None)
    here = running if running is not None else len(plan) if _is_done(plan) else 0
    first = max(0, min(here - 1, len(plan) - NUM_PLAN_LINES))
    lines = list(plan[first : first + NUM_PLAN_LINES])
    return lines, None if running is None else running - first


def _plan_line(
    pen: ImageDraw.ImageDraw, x: int, y: int, width: int, line: str, is_running: bool, height: int
) -> None:
    mark, text = line[:1], line[2:] if line[1:2] == " " else line
    size = 24 if is_running else 16
    letters = font(size)
    while pen.textlength(text, font=letters) > width - 26 and len(text) > 4:
        text = text[:-2].rstrip() + "…"
    middle = y + height // 2
    ink = INK if is_running else QUIET if mark == "+" else FAINT
    if is_running:
        pen.rectangle((x, y + 5, x + 4, y + height - 5), fill=ACCENT)
    elif mark == "+":
        pen.line((x - 1, middle, x + 4, middle + 5, x + 12, middle - 6), fill=GOOD, width=3)
    elif mark == "x":
        for sign in (-1, 1):
            pen.line((x, middle - 5 * sign, x + 10, middle + 5 * sign), fill=BAD, width=3)
    pen.text((x + 22, middle), text, fill=ink, font=letters, anchor="lm")


def _progress(pen: ImageDraw.ImageDraw, x: int, y: int, caption: Caption) -> None:
    doing = caption.status.rpartition(": ")[2]  # the plan shows the step itself
    text = describe_progress(caption.stages)
    pen.text((x, y + 4), text or doing[:30], fill=INK, font=font(24))
    if text:
        pen.text((x, y + 64), doing[:36], fill=QUIET, font=font(16))
    width = (RIGHT - 20) // max(MIN_BARS, len(caption.stages))
    for place, is_reached in enumerate(caption.stages.values()):
        left, fill = x + width * place, GOOD if is_reached else (58, 63, 70)
        pen.rounded_rectangle((left, y + 42, left + width - 5, y + 50), 3, fill=fill)


def _is_done(plan: Sequence[str]) -> bool:
    return bool(plan) and plan[-1].startswith("+")


@lru_cache
def font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """The letters that Pillow brings along."""
    return ImageFont.load_default(size)
