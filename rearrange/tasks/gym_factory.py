"""Environments by Gymnasium id, for the trainer's worker processes.

    CartPole-v1           an id that Gymnasium knows
    package.module:Id     imports the module first, which registers the id
    rearrange/Pick-v0     a task of the home, without Gymnasium's wrappers

An environment registered with a keyword `index` gets its number. Workers receive
`functools.partial(make_gym, ...)`, which pickles as a name and a few arguments. No torch here:
workers import this module.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import VectorEnv

from rearrange.errors import UserError, described
from rearrange.system.registry import import_module
from rearrange.tasks.registry import make_env, register_all
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.workloads import classic, skill_chain

_STRAGGLER = "rearrange/Straggler-v0"


def make_gym(
    index: int, env_id: str, num_envs: int = 1, kwargs: dict[str, Any] | None = None
) -> gymnasium.Env:
    """The environment of worker `index` of `num_envs`.

    The home's environments share one stream of episodes; each takes every num_envs-th. `kwargs` go
    to the environment; the caller's arguments about the stream take precedence.

    Raises UserError for an id that is unknown or an environment that cannot be made.
    """
    known_id, options = find_id(env_id), dict(kwargs or {})
    try:
        if known_id in TASK_OF_ID:
            stream: dict[str, Any] = {"index_offset": index, "index_stride": num_envs}
            return make_env(TASK_OF_ID[known_id], **stream | options)
        if "index" in gymnasium.spec(known_id).kwargs:
            options = {"index": index} | options
        # The checker verifies every step's types, which costs more than a step of CartPole.
        return gymnasium.make(known_id, disable_env_checker=True, **options)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # third-party environments may raise anything
        why = described(error)
        raise UserError(f"cannot make env '{env_id}': {why}") from error


def make_gym_vec(
    num_envs: int, env_id: str, kwargs: dict[str, Any] | None = None, threads: int = 0
) -> VectorEnv | None:
    """A vector environment from the vector entry point, with autoreset disabled.

    Homes' observations are overwritten by the next step or reset, unless kwargs say `copy=True`.

    None if there is no entry point with a keyword `autoreset_mode`, by which autoreset can be
    disabled.

    Args:
        threads: for an entry point with a keyword `threads`.

    Raises UserError as `make_gym` does.
    """
    known_id, options = find_id(env_id), dict(kwargs or {})
    entry_point = gymnasium.spec(known_id).vector_entry_point
    if entry_point is None:
        return None
    try:
        maker = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
        keywords = inspect.signature(maker).parameters
        if "autoreset_mode" not in keywords:
            return None
        options |= {"threads": threads} if "threads" in keywords else {}
        if getattr(maker, "keeps_observations", False):
            options.setdefault("copy", False)
        return gymnasium.make_vec(
            known_id, num_envs, "vector_entry_point", autoreset_mode="Disabled", **options
        )
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:
        why = described(error)
        raise UserError(f"cannot make {num_envs} of env '{env_id}': {why}") from error


def read_spaces(
    env_id: str, kwargs: dict[str, Any] | None = None
) -> tuple[gymnasium.Space, gymnasium.Space]:
    """Observation and action space; makes one environment and closes it (the home's: 0.03 s).

    Raises UserError as `make_gym` does.
    """
    env = make_gym(0, env_id, 1, kwargs)
    try:
        return env.observation_space, env.action_space
    finally:
        env.close()


def register_known() -> None:
    """Registers all our ids with Gymnasium. May be called again."""
    register_all()
    classic.register_all()
    skill_chain.register()
    if _STRAGGLER not in gymnasium.registry:
        entry_point = "rearrange.workloads.straggler:StragglerEnv"
        gymnasium.register(_STRAGGLER, entry_point=entry_point, kwargs={"index": 0})


def find_id(env_id: str) -> str:
    """The id as registered, without its module, which is imported; ours are registered first.

    Raises UserError, with similar ids, if there is none of that name.
    """
    register_known()
    module, colon, name = env_id.rpartition(":")
    if colon:
        import_module(module, f"env '{env_id}'")
    if name in gymnasium.registry:
        return name
    known = list(gymnasium.registry)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "package.module:Id imports first"
    if colon:
        hint = f"{module} did not register it" + (f"; {hint}" if close else "")
    raise UserError(f"unknown env '{env_id}': {hint}")


def registered_id(env_id: str) -> str | None:
    """As `find_id`, for a name from a file, which imports nothing; None for an unknown one.

    Ids of a module are known once the user has named it.
    """
    register_known()
    name = env_id.rpartition(":")[2]
    return name if name in gymnasium.registry else None
