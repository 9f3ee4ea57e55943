"""A film is whole, plays back what went in, or is not there."""

import subprocess
import sys

import imageio.v2 as imageio
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.eval.film.video import VideoWriter


def frame(grey):
    return np.full((48, 64, 3), grey, dtype=np.uint8)


def test_film_plays_back_what_went_in(tmp_path):
    path = tmp_path / "a b.mp4"
    with VideoWriter(path, 64, 48, fps=10) as video:
        for grey in (50, 100, 150, 200):
            video.add(frame(grey))
    with imageio.get_reader(path) as reader:
        means = [float(picture.mean()) for picture in reader]
    assert means == pytest.approx([50, 100, 150, 200], abs=4)  # lossy
    assert [p.name for p in tmp_path.iterdir()] == ["a b.mp4"]


def test_interrupted_film_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), VideoWriter(tmp_path / "a.mp4", 64, 48, 10) as video:
        video.add(frame(1))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_film_in_a_place_that_is_none_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        VideoWriter(tmp_path / "file" / "a.mp4", 64, 48, 10).__enter__()


def test_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    # A limit on the size of files, which ffmpeg inherits, stands for the full disk.
    code = f"""
import resource
import numpy as np
from pathlib import Path
from rearrange import cli
from rearrange.eval.film.video import VideoWriter

def write(words):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    rng = np.random.default_rng(0)
    with VideoWriter(Path({str(tmp_path)!r}) / "a.mp4", 64, 48, 10) as video:
        for _ in range(100):
            video.add(rng.integers(0, 255, (48, 64, 3), dtype=np.uint8))

cli._dispatch = write
raise SystemExit(cli.main([]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: cannot write ") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
