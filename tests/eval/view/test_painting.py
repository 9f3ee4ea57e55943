"""The painter's pictures, and what it keeps in memory for them."""

import io
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from rearrange.eval.view.painting import SIZE, Moment, OrbitCamera, Painter
from rearrange.tasks.registry import make_env
from tests.waits import wait_until


class World:
    """An environment with a painter that looks at it, and what the painter publishes."""

    def __init__(self):
        self.lock, self.scene, self.pictures = threading.RLock(), -1, []
        self.env = make_env("pick", split="val", seed=0, depth=False)
        self.painter = None

    def publish(self, state, jpeg):
        self.pictures.append(jpeg)

    def publish_map(self, png):
        pass

    def look(self):
        return Moment(self.scene, self.scene, self.env.unwrapped, 0, {})

    def begin(self, index):
        with self.lock:
            self.env.reset(options={"index": index})
            self.scene += 1
        if self.painter is None:
            server = SimpleNamespace(publish=self.publish, publish_map=self.publish_map)
            args = OrbitCamera(), self.lock, self.look, "plain", 0.2
            self.painter = Painter(server, *args)

    def picture(self):
        """The next one that begins from now on."""
        wanted = len(self.pictures) + 2
        wait_until(lambda: len(self.pictures) >= wanted or self.painter.error is not None)
        assert self.painter.error is None
        return np.asarray(Image.open(io.BytesIO(self.pictures[-1])))


@pytest.fixture
def world():
    world = World()
    yield world
    world.painter.close()


def test_each_episode_is_painted_from_the_memory_of_the_last(world):
    world.begin(0)
    first = world.picture()
    assert first.shape == (SIZE[1], SIZE[0], 3) and first.std() > 10.0
    data = world.painter._mirror.data
    world.begin(1)
    second = world.picture()
    assert world.painter._mirror.data is data
    assert np.abs(first.astype(float) - second).mean() > 5.0  # another home
    # A new environment has a model of its own.
    world.env = make_env("pick", split="val", seed=0, depth=False)
    world.begin(1)
    third = world.picture()
    assert world.painter._mirror.data is not data
    assert world.painter._mirror.data.qpos.tolist() == world.env.unwrapped.sim.data.qpos.tolist()
    assert np.abs(third.astype(float) - second).mean() < 1.0  # the same picture but for the glow
