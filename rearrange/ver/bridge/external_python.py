"""Another Python: its path, its packages, and the environments it can make.

    ExternalEnvs(find_python("~/envs/habitat"), "habitat:HabitatPick-v0", {})

takes the place of a function that makes environments: `WorkerPool` starts its workers there.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import select
import time
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NoReturn

from rearrange.errors import UserError
from rearrange.system.files import user_path
from rearrange.ver.bridge.messages import Json, cfg_to_json, layout_to_json, spaces_from_json
from rearrange.ver.bridge.spawning import SpawnedProcess, Starter, shared_file
from rearrange.ver.workers.forking import end_process
from rearrange.ver.workers.launching import Launcher, Work, WorkerProcess
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

_SEED = 0  # of the episode that is tried
_LEAVING_S = 2.0  # for a process that has answered; a simulator's threads may linger

log = logging.getLogger(__name__)


def find_python(word: str, setting: str = "workers.python") -> Path:
    """The interpreter for a path to it, or to the folder of an environment.

    Args:
        setting: that named it, for messages.

    Raises UserError if there is none.
    """
    named = user_path(word).absolute()  # not resolved: in a virtual environment it is a link
    python = named / "bin" / "python" if named.is_dir() else named
    if not python.is_file():
        raise UserError(
            f"{setting} must be a Python interpreter or the folder of an environment that has "
            f"one, got '{word}': there is no {python}"
        )
    if not os.access(python, os.X_OK):
        raise UserError(f"{setting} must be a program, got '{word}': {python} is not one")
    return python


def describe(python: Path, timeout_s: float) -> dict[str, str]:
    """Versions of that Python and of packages that environments may need.

    Raises UserError if workers cannot run there.
    """
    return _ask(python, {"task": "describe"}, timeout_s)["versions"]


class ExternalEnvs:
    """Environments of an id, made by another Python.

    Args:
        kwargs: for the environment.
        timeout_s: for making one and its first step.

    Raises UserError for `kwargs` that JSON cannot express.
    """

    def __init__(
        self, python: Path, env_id: str, kwargs: dict[str, Any], timeout_s: float = 120.0
    ) -> None:
        self.python, self._timeout_s = python, timeout_s
        self.content: Json = {"env_id": env_id, "kwargs": kwargs}
        """The settings from which the other Python makes one."""
        try:
            self._text = json.dumps(self.content)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"env_kwargs for another Python must be numbers, texts, lists and dicts: {error}"
            ) from error

    def __call__(self, index: int) -> NoReturn:
        """Raises UserError: this process cannot make one."""
        raise UserError(
            f"environments of {self.python} are stepped by workers: train with serial=false"
        )

    def specs(self) -> tuple[ObservationSpec, ActionSpec]:
        """The spaces, from an environment that is tried once, at the first call.

        Raises UserError, in one line, for missing packages, or an environment that cannot be made,
        started or stepped, or whose spaces are not supported.
        """
        return _specs(self.python, self._text, self._timeout_s)

    def launcher(self) -> Launcher:
        return SpawnLauncher(self)


@lru_cache(maxsize=8)  # cached: a simulator may start slowly, and this is called twice
def _specs(python: Path, content: str, timeout_s: float) -> tuple[ObservationSpec, ActionSpec]:
    told = {"task": "try", "seed": _SEED} | json.loads(content)
    return spaces_from_json(_ask(python, told, timeout_s))


class SpawnLauncher:
    """Workers of a pool in another Python, each started by itself."""

    def __init__(self, envs: ExternalEnvs) -> None:
        self._envs, self._starter, self._memory = envs, Starter(), -1

    def allocate(self, layout: SlotLayout) -> StepSlots:
        self._memory = shared_file(StepSlots.size(layout))
        return StepSlots(layout, mmap.mmap(self._memory, 0))

    def prepare(self) -> None:
        """Does nothing."""

    def launch(self, work: Work, name: str) -> tuple[WorkerProcess, Connection]:
        reader, writer = Pipe(duplex=False)
        content = self._envs.content | {
            "task": "work", "envs": work.envs, "layout": layout_to_json(work.slots.layout),
            "cfg": cfg_to_json(work.cfg), "generation": work.generation,
        }  # fmt: skip
        fds = {"memory": self._memory, "requests": reader.fileno()}
        fds["answers"] = work.answers.fileno()
        with reader:
            return self._starter.start(self._envs.python, content, fds), writer

    def close(self) -> None:
        self._starter.close()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1


def _ask(python: Path, content: Json, timeout_s: float) -> Json:
    """The result of a task in a new process there. Raises as `ExternalEnvs.specs`."""
    starter = Starter()
    reader, writer = os.pipe()
    try:
        try:
            process = starter.start(python, content, {"result": writer})
        finally:
            os.close(writer)
        try:
            text = _read(reader, time.monotonic() + timeout_s)
            process.join(_LEAVING_S)
            how = _end_of(process)
        finally:
            end_process(process)
    finally:
        os.close(reader)
        starter.close()
    if text is None:
        raise UserError(f"{python} did not answer within {timeout_s:g} s{_about(content)}")
    answer: Json = {}
    with suppress(ValueError):
        answer = json.loads(text)
    if not answer:
        raise UserError(f"{python} {how} and did not answer as a Python{_about(content)}")
    if "lacks" in answer:
        raise UserError(f"{python} {answer['lacks']}")
    if "mistake" in answer:
        raise UserError(answer["mistake"])
    if "broken" in answer:
        log.warning("in %s\n%s", python, answer["where"].rstrip())
        raise UserError(f"env '{content['env_id']}' in {python}: the {answer['broken']}")
    return answer


def _about(content: Json) -> str:
    return f" about env '{content['env_id']}'" if "env_id" in content else ""


def _end_of(process: SpawnedProcess) -> str:
    code = process.exitcode
    return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with {code}"


def _read(fd: int, deadline: float) -> str | None:
    """A line, or everything until the pipe is closed; None after a timeout."""
    poll, parts = select.poll(), []
    poll.register(fd, select.POLLIN)
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000.0):
        part = os.read(fd, 65536)
        parts.append(part)
        if not part or part.endswith(b"\n"):
            return b"".join(parts).decode(errors="replace")
    return None
