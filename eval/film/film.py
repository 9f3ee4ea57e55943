"""A film of an episode while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rearrange.eval.film.frames import HEIGHT, WIDTH, Caption, FrameMaker
from rearrange.eval.film.video import VideoWriter
from rearrange.planner.agents.agent import Agent

FPS = 30
EVERY = 3  # control steps a frame: at 30 Hz of control the film runs at three times the speed
END_S = 1.5  # how long the last picture stays, with the result


@contextmanager
def filming(
    env: Any, agent: Agent, path: Path, renderer: str, title: str
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Films an episode inside a `with` block; gives `add(info)`, to be called after the reset and
    after every step. The file is there after the block's good end.

    Raises:
        UserError: if the file cannot be written, or the renderer does not work here.
    """
    with VideoWriter(path, WIDTH, HEIGHT, FPS) as writer:
        film = _Film(env.unwrapped, agent, writer, renderer, title)
        yield film.add
        film.end()


class _Film:
    def __init__(
        self, world: Any, agent: Agent, writer: VideoWriter, renderer: str, title: str
    ) -> None:
        self._world, self._agent, self._writer = world, agent, writer
        self._renderer, self._title = renderer, title
        self._frames: FrameMaker | None = None  # made at the first frame, after the reset
        self._step = 0
        self._info: dict[str, Any] = {}

    def add(self, info: dict[str, Any]) -> None:
        self._info = info
        if self._frames is None:
            self._frames = FrameMaker(self._world, self._renderer)
        if self._step % EVERY == 0:
            self._writer.add(self._frames.draw(self._caption()))
        self._step += 1

    def end(self) -> None:
        if self._frames is None:
            return
        reason = self._agent.failure or self._info.get("failure") or "not done"
        result = "success" if self._info["success"] else str(reason)
        last = self._frames.draw(self._caption(result))
        for _ in range(int(END_S * FPS)):
            self._writer.add(last)

    def _caption(self, result: str = "") -> Caption:
        episode = self._world.episode
        seconds = self._step / 30.0
        title = (
            f"{self._title}, episode {episode.index}, {episode.scene.layout_id}, {seconds:.0f} s"
        )
        return Caption(
            title=title,
            status=self._agent.status,
            plan=self._agent.plan_lines,
            stages=dict(self._info.get("stages", {})),
            result=result,
        )
