"""Tries an environment's first reset and step in this process, before any worker starts.

It gives the spaces, compiles what is compiled on first use, once and not by each worker, and shows
an environment that cannot work at all while there is still nothing to lose.
"""

from __future__ import annotations

from gymnasium.error import DependencyNotInstalled

from rearrange.errors import UserError, described
from rearrange.ver.workers.environment_worker import MakeEnv
from rearrange.ver.workers.launching import RemoteEnvs
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec, action_spec, observation_spec


class EnvironmentFailure(RuntimeError):
    """An environment raised something, or wanted to leave, where it must not. Its cause says."""


def try_environment(make_env: MakeEnv, seed: int) -> tuple[ObservationSpec, ActionSpec]:
    """The spaces of an environment that has been started and stepped once.

    Raises:
        UserError: if the environment does not like its settings, or has spaces of another kind.
        EnvironmentFailure: for whatever else it raises; a ValueError or `sys.exit` of its own is
            no mistake of the caller's.
    """
    if isinstance(make_env, RemoteEnvs):
        return make_env.specs()
    env = make_env(0)
    try:
        spec = observation_spec(env.observation_space), action_spec(env.action_space)
        doing = "reset"
        try:
            env.reset(seed=seed)
            doing = "step"
            env.step(env.action_space.sample())
        except (UserError, MemoryError):
            raise
        except DependencyNotInstalled as error:  # a window without pygame, say
            raise UserError(
                f"the environment needs a package that is not installed: {error}"
            ) from error
        except (Exception, SystemExit) as error:
            what = described(error)
            raise EnvironmentFailure(f"the environment's first {doing} raised {what}") from error
    finally:
        env.close()
    return spec
