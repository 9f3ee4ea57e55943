"""A folder as an evaluation leaves it, of two episodes."""

from dataclasses import replace

from rearrange.configs.schema import TaskCfg
from rearrange.configs.viewing import ViewCfg
from rearrange.eval.episode_store import EpisodeStore, settings_of
from rearrange.eval.missing_episodes import versions
from rearrange.eval.runner import follow_episode, make_env_and_agent, runner_cfg

SUCCESS, FAILURE = 1, 4


def real_record():
    """What an agent really did in the episode `FAILURE`."""
    world = _world()
    env, agent = make_env_and_agent(world)
    return follow_episode(env, agent, world, FAILURE, lambda info: None)


def write_evaluation(folder, record):
    """That its other episode went well is made up."""
    store = EpisodeStore(folder, settings_of(_world(), versions()), 10)
    store.add(replace(record, index=SUCCESS, success=True, failure=None, last_step=""))
    store.add(record)
    store.close()
    return folder


def _world():
    return runner_cfg(ViewCfg(task=TaskCfg(name="pick", title="Pick"), agent="random"))
