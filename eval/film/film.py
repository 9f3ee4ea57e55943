"""A film of an episode while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rearrange.eval.film.frames import HEIGHT, WIDTH, Caption, FrameMaker
from rearrange.eval.film.video import VideoWriter
from rearrange.planner.agents.agent import Agent
from rearrange.planner.home.words import Words, names_of, running_step
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec

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
        episode, agent = self._world.episode, self._agent
        result = "success" if self._info["success"] else failure_words(episode, agent, self._info)
        last = self._frames.draw(self._caption(result))
        for _ in range(int(END_S * FPS)):
            self._writer.add(last)

    def _caption(self, result: str = "") -> Caption:
        seconds = f"{self._step / 30.0:.0f} s"
        return caption(self._title, self._world.episode, self._agent, self._info, seconds, result)


def caption(
    title: str, episode: EpisodeSpec, agent: Agent, info: dict[str, Any], time: str, result: str
) -> Caption:
    """The words of a frame. `time` ends its heading, if it is not empty."""
    words = Words(names_of(episode))
    lines = agent.plan_lines
    if not TASKS[episode.task].is_planned and lines:
        lines = [f"> {running_step(episode, agent.status)}"]
    heading = f"{title}, episode {episode.index}, {episode.scene.layout_id}"
    return Caption(
        title=f"{heading}, {time}" if time else heading,
        status=words.status(agent.status),
        plan=[words.plan_line(line) for line in lines],
        stages=dict(info.get("stages", {})),
        result=result,
    )


def failure_words(episode: EpisodeSpec, agent: Agent, info: dict[str, Any]) -> str:
    """What went wrong in an episode that is over."""
    label = str(agent.failure or info.get("failure") or "stopped too early")
    return Words(names_of(episode)).failure(label, running_step(episode, agent.status))
