"""The options of an environment: which values they take, from Python and recorded in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.sim.homes.layout import HOMES, SPLITS
from rearrange.system.checked_json import MAX_WHOLE, Node, quoted
from rearrange.tasks.actions import ACTION_SPACES
from rearrange.tasks.cameras import MAX_RENDER, MIN_RENDER, PLAIN, RENDER_CAMERAS
from rearrange.tasks.episodes.generate import STARTS
from rearrange.tasks.ranges import CAMERA_ONLY
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.tasks.rules.rulebook import make_task
from rearrange.tasks.rules.task import MIN_FORCE_SCALE, MIN_SUCCESS_SCALE

MAX_CAMERA_SIZE = 1024  # pixels a side; the paper's is 128
# rad: between one step's command and the largest lead of any joint.
MIN_LEAD, MAX_LEAD = 0.0125, 6.3
RESET_OPTIONS = ("index", "episode")
_PICTURES = ("depth", "rgb", "panoptic")
_OF_STATES = (  # what a state continues with: sensors, motors, thresholds
    *_PICTURES, "ranges", "floor_way", "handle_sensors", "motor_lead", "success_scale",
    "force_scale",
)  # fmt: skip
_OWN = ("success_scale", "force_scale")  # ... and of these what no sensor or motor is

BEFORE: dict[str, Any] = {"handle_sensors": True, "motor_lead": 0.15}
"""Values of options before they existed: older files lack them."""
NOT_LEARNED = ("render_mode", "render_size", "render_camera")
"""Options that do not affect learning."""

_READERS: dict[str, Callable[[Node], Any]] = {
    "split": lambda node: node.text(SPLITS),
    "seed": lambda node: node.integer(0, MAX_WHOLE),
    "camera_size": lambda node: node.integer(1, MAX_CAMERA_SIZE),
    "depth": Node.boolean,
    "ranges": lambda node: (
        node.text((CAMERA_ONLY,)) if isinstance(node.value, str) else node.boolean()
    ),
    "floor_way": Node.boolean,
    "rgb": lambda node: node.text((PLAIN,)) if isinstance(node.value, str) else node.boolean(),
    "panoptic": Node.boolean,
    "handle_sensors": Node.boolean,
    "observation_delay": lambda node: node.integer(0, 1),
    "motor_lead": lambda node: None if node.value is None else node.number(MIN_LEAD, MAX_LEAD),
    "action_space": lambda node: node.text(ACTION_SPACES),
    "max_episode_steps": lambda node: None if node.value is None else node.integer(1, MAX_WHOLE),
    "starts": lambda node: node.text(STARTS),
    "success_scale": lambda node: node.number(MIN_SUCCESS_SCALE, 1.0),
    "force_scale": lambda node: node.number(MIN_FORCE_SCALE, 1.0),
    "homes": lambda node: node.text(None if node.text().endswith(".json") else HOMES),
}
_MORE_READERS: dict[str, Callable[[Node], Any]] = {  # not part of a training
    "seed": lambda node: None if node.value is None else node.integer(0, MAX_WHOLE),
    "index_offset": lambda node: node.integer(0, MAX_WHOLE),
    "index_stride": lambda node: node.integer(1, MAX_WHOLE),
    "render_mode": lambda node: node.text_or_null(("rgb_array",)),
    "render_size": lambda node: [side.integer(MIN_RENDER, MAX_RENDER) for side in node.list(2, 2)],
    "render_camera": lambda node: node.text(RENDER_CAMERAS),
}


def lead(value: Any) -> float | None:
    """`motor_lead` as a float or None; UserError otherwise."""
    if value is None:
        return None
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not MIN_LEAD <= value <= MAX_LEAD:
        line = f"motor_lead must be null or from {MIN_LEAD} to {MAX_LEAD} rad, got {quoted(value)}"
        raise UserError(line)
    return float(value)


def of_states(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that environments which exchange states must have in common."""
    size = options["camera_size"] if any(options[name] for name in _PICTURES) else None
    return {name: options[name] for name in _OF_STATES} | {"camera_size": size}


def check_equal(here: Mapping[str, Any], there: Mapping[str, Any], looks_anew: bool) -> None:
    """Checks `of_states` of an environment and of where a state comes from.

    Args:
        looks_anew: sensors and motors may differ.

    Raises UserError, which names the first difference.
    """
    for name in _OWN if looks_anew else here:
        if here[name] != there[name]:
            came = f"{name} {quoted(there[name])}, here it is {quoted(here[name])}"
            raise UserError(f"a state must be of an equal environment, got one with {came}")


def to_record(env_id: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an environment for checkpoints, the counterpart of `recorded_options`.

    Values as in `BEFORE` are left out, so that older runs can be resumed.
    """
    options = dict(kwargs)
    if env_id not in TASK_OF_ID:
        return options
    now = {"motor_lead": None, "handle_sensors": False}
    options = {name: now[name] for name in _before(env_id)} | options
    return {
        name: value
        for name, value in options.items()
        if name not in NOT_LEARNED and (name not in BEFORE or BEFORE[name] != value)
    }


def _before(env_id: str) -> dict[str, Any]:
    """`BEFORE`, for the options that the environment has."""
    if make_task(TASK_OF_ID[env_id]).handle_sensors:
        return dict(BEFORE)
    return {name: value for name, value in BEFORE.items() if name != "handle_sensors"}


def recorded_options(env_id: str, value: Any, where: str) -> dict[str, Any]:
    """The options, each as `RearrangeEnv` takes it.

    Args:
        env_id: one of the home.
        value: decoded JSON.
        where: prefix of error messages.

    Raises UserError for anything else, including index_offset and the like: those are not part of
    the training.
    """
    return _before(env_id) | _read(Node(value, where, "env_kwargs"), _READERS)


def recorded_environment(task: str, value: Any, where: str) -> dict[str, Any]:
    """All arguments of a `RearrangeEnv`, as a data set records them.

    Args:
        task: the name of the task that it must be for, a registered one. It may be recorded as
            `package.module:Name` too, of a module that is imported already: none is here.
        value: decoded JSON.
        where: prefix of error messages.

    Raises UserError for anything else.
    """
    readers = _READERS | _MORE_READERS | {"task": lambda node: _task(node, task)}
    node = Node(value, where, "environment")
    _ = node["task"]  # raises if it is missing
    return _read(node, readers)


def _read(node: Node, readers: Mapping[str, Callable[[Node], Any]]) -> dict[str, Any]:
    options = {}
    for name, member in node.items():
        if name not in readers:
            member.fail(f"be one of {', '.join(readers)}", quoted(name))
        options[name] = readers[name](member)
    return options


def _task(node: Node, task: str) -> str:
    word = node.text()
    module, _, name = word.rpartition(":")
    loaded = getattr(sys.modules.get(module), "__dict__", None)
    is_own = loaded is not None and (name == task or loaded.get(name) is TASKS[task])
    if word != task and not is_own:
        node.fail(f"be {task}, as the episode's")
    return task
