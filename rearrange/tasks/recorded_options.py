"""The environment options recorded in a file."""

from collections.abc import Callable, Mapping
from typing import Any

from rearrange.sim.homes.layout import HOMES, SPLITS
from rearrange.system.checked_json import Node, quoted
from rearrange.tasks.actions import ACTION_SPACES
from rearrange.tasks.cameras import PLAIN
from rearrange.tasks.env import MAX_CAMERA_SIZE, MAX_LEAD, MAX_WHOLE, MIN_LEAD
from rearrange.tasks.episodes.generate import STARTS
from rearrange.tasks.ranges import CAMERA_ONLY
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.tasks.rules.rulebook import make_task
from rearrange.tasks.rules.task import MIN_FORCE_SCALE, MIN_SUCCESS_SCALE

BEFORE: dict[str, Any] = {"handle_sensors": True, "motor_lead": 0.15}
"""Values of options before they existed: older files lack them."""
NOT_LEARNED = ("render_mode", "render_size", "render_camera")
"""Options that do not affect learning."""


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
    readers: dict[str, Callable[[Node], Any]] = {
        "split": lambda node: node.text(SPLITS),
        "seed": lambda node: node.integer(0, MAX_WHOLE),
        "camera_size": lambda node: node.integer(1, MAX_CAMERA_SIZE),
        "depth": Node.boolean,
        "ranges": lambda node: (
            node.text((CAMERA_ONLY,)) if isinstance(node.value, str) else node.boolean()
        ),
        "rgb": lambda node: node.text((PLAIN,)) if isinstance(node.value, str) else node.boolean(),
        "panoptic": Node.boolean,
        "handle_sensors": Node.boolean,
        "observation_delay": lambda node: node.integer(0, 1),
        "motor_lead": lambda node: None if node.value is None else node.number(MIN_LEAD, MAX_LEAD),
        "action_space": lambda node: node.text(ACTION_SPACES),
        "max_episode_steps": lambda node: (
            None if node.value is None else node.integer(1, MAX_WHOLE)
        ),
        "starts": lambda node: node.text(STARTS),
        "success_scale": lambda node: node.number(MIN_SUCCESS_SCALE, 1.0),
        "force_scale": lambda node: node.number(MIN_FORCE_SCALE, 1.0),
        "homes": lambda node: node.text(None if node.text().endswith(".json") else HOMES),
    }
    options = _before(env_id)
    for name, node in Node(value, where, "env_kwargs").items():
        if name not in readers:
            node.fail(f"be one of {', '.join(readers)}", quoted(name))
        options[name] = readers[name](node)
    return options
