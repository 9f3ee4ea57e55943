"""Converts an mp4 video to a GIF, for places that play nothing else: a README, TensorBoard."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import imageio_ffmpeg

from rearrange.errors import UserError
from rearrange.eval.film.video import find_ffmpeg
from rearrange.system.outputs import atomic_path


@dataclass(frozen=True, kw_only=True)
class GifCfg:
    width: int
    fps: float
    """Pictures a second of the GIF."""
    seconds: float
    """How long it may be: a longer film runs faster."""
    num_colors: int = 128


PAGE = GifCfg(width=640, fps=8, seconds=math.inf)  # for the top of a page


@contextmanager
def film_for(path: Path) -> Generator[Path]:
    """Gives the mp4 file to film into; where `path` ends in .gif it is made of that at a good end.

    Raises UserError as `write_gif`.
    """
    if path.suffix != ".gif":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rearrange-film-") as folder:
        film = Path(folder) / "film.mp4"
        yield film
        write_gif(film, path, length_of(film), PAGE)


def write_gif(film: Path, path: Path, film_s: float, cfg: GifCfg) -> None:
    """Writes the GIF of a film of `film_s` seconds, with a palette of its own.

    Raises UserError if the film cannot be read or the file not be written.
    """
    speed = max(1.0, film_s / cfg.seconds)
    fps = max(cfg.fps, 1.5 * speed / max(film_s, 1e-3))  # a shorter film would have no picture
    steps = f"setpts=PTS/{speed:.6f},fps={fps:g},scale={cfg.width}:-2:flags=lanczos"
    palette = f"palettegen=max_colors={cfg.num_colors}:stats_mode=diff"
    # no dithering: what does not move then compresses to nothing
    graph = f"{steps},split[a][b];[a]{palette}[p];[b][p]paletteuse=dither=none:diff_mode=rectangle"
    command = [find_ffmpeg(), "-y", "-loglevel", "error", "-threads", "1"]
    # Absolute paths: ffmpeg takes what comes before a colon for a protocol.
    source = ["-i", str(film.absolute())]
    with atomic_path(path.absolute()) as temporary:
        done = subprocess.run(
            [*command, *source, "-vf", graph, "-loop", "0", "-f", "gif", str(temporary)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise UserError(f"cannot make {path} of {film}: ffmpeg says {said[-1]}")


def size_of(content: bytes) -> tuple[int, int]:
    """Width and height that a GIF's header says (GIF89a, section 18)."""
    return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")


def length_of(film: Path) -> float:
    """Seconds that a film lasts."""
    find_ffmpeg()  # says in a line what is wrong with it
    frames = imageio_ffmpeg.read_frames(str(film))
    try:
        return float(next(frames)["duration"])  # pyrefly: ignore[bad-index]: the first is no picture
    finally:
        frames.close()
