"""What a file says that an environment of the home was made with."""

from collections.abc import Callable
from typing import Any

from rearrange.sim.homes.layout import HOMES, SPLITS
from rearrange.system.checked_json import Node, quoted
from rearrange.tasks.actions import ACTION_SPACES
from rearrange.tasks.env import MAX_CAMERA_SIZE, MAX_WHOLE
from rearrange.tasks.episodes.generate import STARTS
from rearrange.tasks.ranges import CAMERA_ONLY


def recorded_options(value: Any, where: str) -> dict[str, Any]:
    """The options, each as `RearrangeEnv` takes it.

    Args:
        value: decoded JSON.
        where: how the line of an error begins.

    Raises UserError for anything else, index_offset and the like among it: those are no part of
    what was learned.
    """
    readers: dict[str, Callable[[Node], Any]] = {
        "split": lambda node: node.text(SPLITS),
        "seed": lambda node: node.integer(0, MAX_WHOLE),
        "camera_size": lambda node: node.integer(1, MAX_CAMERA_SIZE),
        "depth": Node.boolean,
        "ranges": lambda node: (
            node.text((CAMERA_ONLY,)) if isinstance(node.value, str) else node.boolean()
        ),
        "observation_delay": lambda node: node.integer(0, 1),
        "action_space": lambda node: node.text(ACTION_SPACES),
        "max_episode_steps": lambda node: (
            None if node.value is None else node.integer(1, MAX_WHOLE)
        ),
        "starts": lambda node: node.text(STARTS),
        "homes": lambda node: node.text(None if node.text().endswith(".json") else HOMES),
    }
    options = {}
    for name, node in Node(value, where, "env_kwargs").items():
        if name not in readers:
            node.fail(f"be one of {', '.join(readers)}", quoted(name))
        options[name] = readers[name](node)
    return options
