"""Films an episode while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rearrange.eval.film.frames import HEIGHT, WIDTH, FrameMaker
from rearrange.eval.film.lettering import Caption
from rearrange.eval.film.video import VideoWriter
from rearrange.planner.agents.agent import Agent
from rearrange.planner.home.descriptions import STEP, Descriptions, names_of, running_step
from rearrange.planner.home.facts import goal_name
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec

FPS = 30
CONTROL_HZ = 30
END_S = 1.5  # how long the last picture stays, with the result


class FilmStyle(NamedTuple):
    """How fast and how fine a film is."""

    every: int
    """Control steps a frame: how many times as fast as the robot it runs."""
    detail: float
    """See `FrameMaker`."""


RECORDING = FilmStyle(3, 1.0)
FOR_A_PAGE = FilmStyle(12, 1.0)  # a GIF, which is to be short
BESIDE_EVALUATION = FilmStyle(6, 0.75)  # a third of a recording's price


@contextmanager
def filming(
    env: Any, agent: Agent, path: Path, renderer: str, title: str, style: FilmStyle
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Films an episode inside a `with` block; gives `add(info)`, to be called after the reset and
    after every step. The file is there after the block's good end.

    Raises:
        UserError: if the file cannot be written, or the renderer does not work here.
    """
    with VideoWriter(path, WIDTH, HEIGHT, FPS) as writer:
        film = _Film(env.unwrapped, agent, writer, renderer, title, style)
        yield film.add
        film.end()


class _Film:
    def __init__(
        self,
        world: Any,
        agent: Agent,
        writer: VideoWriter,
        renderer: str,
        title: str,
        style: FilmStyle,
    ) -> None:
        self._world, self._agent, self._writer = world, agent, writer
        self._renderer, self._title, self._style = renderer, title, style
        self._frames: FrameMaker | None = None  # made at the first frame, after the reset
        self._step = 0
        self._info: dict[str, Any] = {}

    def add(self, info: dict[str, Any]) -> None:
        self._info = info
        if self._frames is None:
            self._frames = FrameMaker(
                self._world, self._renderer, self._style.every / CONTROL_HZ, self._style.detail
            )
        if self._step % self._style.every == 0:
            self._writer.add(self._frames.draw(self._caption()))
        self._step += 1

    def end(self) -> None:
        if self._frames is None:
            return
        episode, agent = self._world.episode, self._agent
        result = (
            "success" if self._info["success"] else describe_failure(episode, agent, self._info)
        )
        last = self._frames.draw(self._caption(result))
        for _ in range(int(END_S * FPS)):
            self._writer.add(last)

    def _caption(self, result: str = "") -> Caption:
        texts = caption(self._title, self._world.episode, self._agent, self._info, "", result)
        texts.clock = f"{self._step / CONTROL_HZ:.0f} s"
        texts.speed = f"{self._style.every}x"
        return texts


def caption(
    title: str, episode: EpisodeSpec, agent: Agent, info: dict[str, Any], time: str, result: str
) -> Caption:
    """The texts of a frame. `time` ends its heading, if it is not empty."""
    described = Descriptions(names_of(episode))
    lines = agent.plan_lines
    if not TASKS[episode.task].is_planned and lines:
        lines = [f"> {running_step(episode, agent.status)}"]
    heading = f"{title}, episode {episode.index}, {episode.scene.layout_id}"
    return Caption(
        focus=object_in_work(episode, agent.status),
        title=f"{heading}, {time}" if time else heading,
        status=described.status(agent.status),
        plan=[described.plan_line(line) for line in lines],
        stages=dict(info.get("stages", {})),
        result=result,
    )


def object_in_work(episode: EpisodeSpec, status: str) -> int | None:
    """The object that the running step is about; None if it is about none of the targets."""
    match = STEP.fullmatch(running_step(episode, status))
    names = match[2].split(",") if match else []
    wanted = {name.strip().removeprefix(goal_name("")) for name in names}
    return next((t.object for t in episode.targets if t.name in wanted), None)


def describe_failure(episode: EpisodeSpec, agent: Agent, info: dict[str, Any]) -> str:
    """What went wrong in an episode that is over."""
    label = str(agent.failure or info.get("failure") or "stopped too early")
    return Descriptions(names_of(episode)).failure(label, running_step(episode, agent.status))
