"""Environments of Gymnasium, or of gym from 0.21 on, with Gymnasium's interface.

    habitat:HabitatPick-v0    imports habitat.gym, which registers the id with gym
    package.module:Id         imports the module, which registers it with either
    CartPole-v1               what is registered there already

gym's API changed in 0.22 and again in 0.26: `env.seed(seed)` became `reset(seed=)`, `done` became
`terminated` and `truncated`, and `reset` returns an info too. The API is detected from the answers.
"""

from __future__ import annotations

import importlib
import inspect
import io
import random
from contextlib import redirect_stderr
from typing import Any

import numpy as np

from rearrange.errors import UserError, described
from rearrange.ver.bridge import habitat
from rearrange.ver.bridge.flat_actions import flat_actions

_LIBRARIES = ("gymnasium", "gym")  # the order in which an id is looked up
_REGISTERED_BY = {"habitat": "habitat.gym"}  # importing the package itself registers nothing


class OtherEnv:
    """An environment of any API version, with Gymnasium's interface."""

    def __init__(self, env: Any) -> None:
        self.unwrapped = getattr(env, "unwrapped", env)
        self.observation_space, self.spec = env.observation_space, getattr(env, "spec", None)
        self.action_space, self._rebuilt = flat_actions(env.action_space)
        self._env = env
        self._takes_seed = _takes_seed(env)

    def reset(self, seed: int) -> tuple[Any, dict]:
        if self._takes_seed:
            answer = self._env.reset(seed=seed)
        else:
            random.seed(seed)  # environments without a generator of their own draw from these
            np.random.seed(seed)
            if hasattr(self._env, "seed"):
                self._env.seed(seed)
            answer = self._env.reset()
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict):
            return answer
        return answer, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        answer = self._env.step(self._rebuilt(action))
        if len(answer) == 5:
            return answer
        observation, reward, done, info = answer
        truncated = bool(done and info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done) and not truncated, truncated, info

    def close(self) -> None:
        self._env.close()


def make_adapted(index: int, env_id: str, kwargs: dict[str, Any], python: str) -> OtherEnv:
    """The environment of that index, passed on if it is registered with that keyword.

    Args:
        python: the name of this Python for messages.

    Raises UserError, in one line, if it cannot be made.
    """
    module, colon, name = env_id.rpartition(":")
    if colon:
        _import(_REGISTERED_BY.get(module, module), f"env '{env_id}'", python)
    libraries = [found for word in _LIBRARIES if (found := _library(word)) is not None]
    if not libraries:
        raise UserError(f"{python} has neither gymnasium nor gym: install what '{env_id}' needs")
    for library in libraries:
        try:
            spec = library.spec(name)
        except Exception:  # each has its own errors, in changing modules
            continue
        return _made(library, spec, index, kwargs, f"env '{env_id}' in {python}")
    known = " and ".join(f"{library.__name__} {library.__version__}" for library in libraries)
    hint = f"{module} did not register it" if colon else "package.module:Id imports first"
    raise UserError(f"{python} does not know env '{env_id}': {hint}; {known} looked for it")


def _made(library: Any, spec: Any, index: int, kwargs: dict[str, Any], what: str) -> OtherEnv:
    registered = getattr(spec, "kwargs", None) or getattr(spec, "_kwargs", None) or {}
    options = ({"index": index} if "index" in registered else {}) | kwargs
    if library.__name__ == "gymnasium":
        options["disable_env_checker"] = True  # it costs more than a step of CartPole
    try:
        return OtherEnv(library.make(spec.id, **options))
    except UserError as error:
        raise UserError(f"{what}: {error}") from error
    except Exception as error:  # third-party environments may raise anything
        why = described(error)
        raise UserError(f"cannot make {what}: {why}") from error


def _library(name: str) -> Any:
    try:
        with redirect_stderr(io.StringIO()):  # gym warns at each start that it is deprecated
            return importlib.import_module(name)
    except ImportError:
        return None


def _import(module: str, what: str, python: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:  # third-party modules may raise anything
        why = described(error)
        missing = habitat.lacking(habitat.versions_here())
        if module == _REGISTERED_BY["habitat"] and missing is not None:
            raise UserError(f"{python} lacks {missing} for {what}") from error
        raise UserError(
            f"{python} cannot import '{module}' for {what} ({why}): install it there, or name its "
            "folder in PYTHONPATH"
        ) from error


def _takes_seed(env: Any) -> bool:
    """Whether `reset(seed=)` reaches the environment itself, through all its wrappers.

    One that takes any keyword may ignore this one, as Habitat's does, but passes it on if it wraps.
    """
    inner = getattr(env, "unwrapped", env)
    if "seed" not in inspect.signature(inner.reset).parameters:
        return False
    while env is not inner:
        parameters = inspect.signature(env.reset).parameters.values()
        if not any(p.name == "seed" or p.kind == p.VAR_KEYWORD for p in parameters):
            return False
        env = getattr(env, "env", inner)
    return True
