"""A film is whole, plays back what went in, or is not there."""

import inspect
import subprocess
import sys
from pathlib import Path

import gymnasium
import imageio.v2 as imageio
import numpy as np
import pytest
from PIL import Image

import rearrange
from rearrange.errors import UserError
from rearrange.eval.film.gif import GifCfg, film_for, length_of, size_of, write_gif
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


def test_a_film_becomes_a_gif_as_long_as_it_may_be(tmp_path):
    film, path = tmp_path / "a.mp4", tmp_path / "a.gif"
    with VideoWriter(film, 64, 48, fps=10) as video:
        for grey in np.linspace(0, 250, 40):
            video.add(frame(int(grey)))
    assert length_of(film) == pytest.approx(4.0, abs=0.1)
    write_gif(film, path, length_of(film), GifCfg(width=32, fps=5, seconds=2.0))
    with Image.open(path) as gif:
        assert gif.size == size_of(path.read_bytes()) == (32, 24)
        assert gif.n_frames == 10 and gif.info["duration"] == 200  # 2 s at 5 a second
        means = []
        for number in range(gif.n_frames):
            gif.seek(number)
            means.append(np.asarray(gif.convert("L")).mean())
    assert means == sorted(means) and means[-1] > 200  # the whole film, in its order


def test_a_recording_is_a_gif_where_its_name_says_so(tmp_path):
    for name, form in (("a.gif", "GIF"), ("a.mp4", None)):
        with (
            film_for(tmp_path / name) as film,
            VideoWriter(film, 64, 48, fps=10) as video,
        ):
            video.add(frame(9))
            video.add(frame(200))
        if form is not None:
            with Image.open(tmp_path / name) as gif:
                assert gif.format == form
    assert {path.name for path in tmp_path.iterdir()} == {"a.gif", "a.mp4"}


def test_a_gif_of_no_film_is_one_line(tmp_path):
    (tmp_path / "a.mp4").write_text("no film")
    with pytest.raises(UserError, match="cannot make .*a.gif of .*a.mp4: ffmpeg says"):
        write_gif(tmp_path / "a.mp4", tmp_path / "a.gif", 1.0, GifCfg(width=9, fps=1, seconds=1))
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


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
from rearrange.eval.film.gif import GifCfg, length_of, size_of, write_gif
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


class Counting(gymnasium.Env):
    """Step n is a picture of the grey 20 n; an episode has five."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.n = 0
        return 0, {}

    def step(self, action):
        self.n += 1
        return 0, 0.0, self.n == 5, False, {}

    def render(self):
        return frame(20 * self.n)


def greys(path):
    with imageio.get_reader(path) as reader:
        return [round(float(picture.mean()) / 20) for picture in reader]


def play(env, num_episodes):
    for _ in range(num_episodes):
        env.reset()
        while not env.step(0)[2]:
            pass
    env.close()


def test_record_video_films_the_episodes_that_gymnasiums_would(tmp_path):
    play(rearrange.RecordVideo(Counting(), tmp_path / "a"), 9)
    names = {path.name: greys(path) for path in (tmp_path / "a").iterdir()}
    assert names == {f"rl-video-episode-{n}.mp4": [0, 1, 2, 3, 4, 5] for n in (0, 1, 8)}


def test_record_video_begins_and_ends_where_it_is_told(tmp_path):
    begins = {"step_trigger": lambda step: step == 7, "video_length": 2, "name_prefix": "mine"}
    play(rearrange.RecordVideo(Counting(), tmp_path / "b", **begins), 3)
    assert {path.name: greys(path) for path in (tmp_path / "b").iterdir()} == {
        "mine-step-7.mp4": [3, 4, 5]
    }


def test_record_video_takes_what_gymnasiums_takes():
    theirs = inspect.signature(gymnasium.wrappers.RecordVideo.__init__).parameters
    ours = inspect.signature(rearrange.RecordVideo.__init__).parameters
    assert [*ours] == [*theirs]


def test_a_film_may_have_a_colon_in_its_name(tmp_path, monkeypatch):
    """That of a protocol, for ffmpeg."""
    monkeypatch.chdir(tmp_path)
    for name in ("take:1.mp4", "take:2.gif"):
        with film_for(Path(name)) as film, VideoWriter(film, 64, 48, fps=5) as writer:
            for n in range(5):
                writer.add(frame(20 * n))
        assert Path(name).stat().st_size > 100


@pytest.mark.parametrize(("count", "fps"), [(1, 60), (2, 60), (3, 50), (2, 30), (40, 60)])
def test_a_film_of_a_moment_makes_a_gif_too(tmp_path, count, fps):
    with film_for(tmp_path / "x.gif") as film, VideoWriter(film, 64, 48, fps=fps) as writer:
        for n in range(count):
            writer.add(frame(5 * n))
    assert size_of((tmp_path / "x.gif").read_bytes())[0] > 0


def test_a_folder_that_cannot_be_made_for_videos_is_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    env = rearrange.RecordVideo(Counting(), tmp_path / "file")
    with pytest.raises(UserError, match="file"):
        env.reset()


def test_record_video_needs_pictures(tmp_path):
    env = Counting()
    env.render_mode = None
    with pytest.raises(UserError, match="render_mode='rgb_array', got None"):
        rearrange.RecordVideo(env, tmp_path)


def test_images_of_another_size_are_one_line(tmp_path):
    class Growing(Counting):
        def render(self):
            return np.zeros((48 + 16 * self.n, 64, 3), np.uint8)

    env = rearrange.RecordVideo(Growing(), tmp_path)
    env.reset()
    with pytest.raises(UserError, match="must have one size, got 64 x 48 at first and 64 x 64 now"):
        env.step(0)
    env.close()


@pytest.mark.parametrize("program", ["missing", "empty"])
def test_an_ffmpeg_that_cannot_be_started_is_one_line(tmp_path, monkeypatch, program):
    (tmp_path / "empty").write_text("")
    (tmp_path / "empty").chmod(0o755)  # neither a program nor a script
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / program))
    with (
        pytest.raises(UserError, match="films need ffmpeg, .*; see `rearrange doctor`"),
        VideoWriter(tmp_path / "a.mp4", 64, 48, 10),
    ):
        raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
