"""Habitat's side of a pipe: answers questions about one environment until the pipe is closed.

    {"do": "reset", "index": 3}        ->  {"facts": ..., "sensors": [[name, shape], ...]}, floats
    {"do": "step", "action": [...]}    ->  the same
    {"do": "state"}                    ->  {"state": ...}
    {"do": "places"}                   ->  {"places": ...}
    {"do": "memory"}                   ->  {"memory": MB}
    {"do": "picture"}                  ->  {"shape": [H, W, 3]}, bytes
    an error                           ->  {"broken": what, "where": traceback}

Messages are JSON, numbers of sensors follow as 4-byte floats: no pickle.

Runs in Habitat's Python: numpy and habitat alone, Python 3.9.
"""

from __future__ import annotations

import json
import os
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from rearrange.errors import described
from rearrange.eval.habitat.lab.stock_env import StockCfg, StockEnv
from rearrange.system.processes import end_with_parent, most_memory_mb


def serve(settings: dict[str, Any]) -> dict[str, Any]:
    """The whole life of the process; an empty result."""
    end_with_parent(None)
    fds = settings["fds"]
    questions = Connection(fds["requests"], writable=False)
    answers = Connection(fds["answers"], readable=False)
    with suppress(EOFError, OSError):  # the other side is gone
        try:
            os.chdir(settings["folder"])
            env = StockEnv(StockCfg(**settings["cfg"]))
            _tell(answers, {"num_episodes": env.num_episodes})
            while True:
                _answer(env, json.loads(questions.recv_bytes()), answers)
        except (EOFError, OSError):
            raise
        except (Exception, SystemExit) as error:  # a simulator may raise anything
            where = traceback.format_exc()
            _tell(answers, {"broken": described(error), "where": where})
    return {}


def _answer(env: StockEnv, question: dict[str, Any], answers: Connection) -> None:
    do = question["do"]
    if do in ("state", "places"):
        _tell(answers, {do: getattr(env, do)()})
        return
    if do == "memory":
        _tell(answers, {do: most_memory_mb()})
        return
    if do == "picture":
        picture = env.picture()
        _tell(answers, {"shape": picture.shape})
        answers.send_bytes(picture.tobytes())
        return
    if do == "reset":
        sensors, facts = env.reset(question["index"])
    else:
        sensors, facts = env.step(np.array(question["action"], np.float64))
    layout = [[name, list(value.shape)] for name, value in sensors.items()]
    _tell(answers, {"facts": facts, "sensors": layout})
    answers.send_bytes(b"".join(value.astype("<f4").tobytes() for value in sensors.values()))


def _tell(answers: Connection, content: dict[str, Any]) -> None:
    answers.send_bytes(json.dumps(content).encode())
