"""The other Python's side once it has numpy: describe itself, try an environment, or work."""

from __future__ import annotations

import importlib
import importlib.metadata
import mmap
import os
import platform
import signal
import traceback
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

import numpy as np

from rearrange.errors import UserError, described
from rearrange.system.processes import end_with_parent
from rearrange.system.stop_signals import TO_ALL
from rearrange.ver.bridge import habitat
from rearrange.ver.bridge.gym_adapter import make_adapted
from rearrange.ver.bridge.messages import Json, cfg_from_json, layout_from_json, spaces_to_json
from rearrange.ver.workers.environment_worker import run_environment_worker
from rearrange.ver.workers.spaces import action_spec, observation_spec

_OF_INTEREST = ("numpy", "gym", "gymnasium")


def serve(settings: Json) -> Json:
    """Does the task in the settings; returns its result."""
    if settings["task"] == "work":
        _work(settings)
        return {}
    if settings["task"] == "call":  # of a room that this one does not know
        return importlib.import_module(settings["module"]).serve(settings)
    end_with_parent(None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TO_ALL)
    return _describe() if settings["task"] == "describe" else _try(settings)


def _describe() -> Json:
    """Versions, by package."""
    found = {"python": platform.python_version()}
    for package in _OF_INTEREST:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return {"versions": found | habitat.versions_here()}


def _try(settings: Json) -> Json:
    """The spaces of an environment that has been made, started and stepped once."""
    doing = "start"
    try:
        env = make_adapted(0, settings["env_id"], settings["kwargs"], settings["python"])
        spaces = observation_spec(env.observation_space), action_spec(env.action_space)
        doing = "reset"
        env.reset(seed=settings["seed"])
        doing = "step"
        action = spaces[1]
        env.step(action.to_env(np.zeros(action.size, action.dtype)))
        env.close()
        return spaces_to_json(*spaces)
    except UserError as error:
        return {"mistake": str(error)}
    except (Exception, SystemExit) as error:
        what = described(error)
        where = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return {"broken": f"first {doing} raised {what}", "where": where}


def _work(settings: Json) -> None:
    """An environment worker, like those in our own Python."""
    fds, parent = (
        settings["fds"],
        os.getppid(),
    )  # or of a wrapper script between us and the training
    with suppress(PermissionError):
        os.kill(settings["training"], 0)  # raises if it is gone
    memory = mmap.mmap(fds["memory"], 0)
    os.close(fds["memory"])
    make_env = partial(
        make_adapted,
        env_id=settings["env_id"],
        kwargs=settings["kwargs"],
        python=settings["python"],
    )
    run_environment_worker(
        make_env,
        settings["envs"],
        layout_from_json(settings["layout"]),
        memory,
        cfg_from_json(settings["cfg"]),
        Connection(fds["requests"], writable=False),
        Connection(fds["answers"], readable=False),
        settings["generation"],
        parent,
    )
