"""One agent through one episode, giving one record.

The record holds nothing that depends on the machine, the worker or the clock, so that the same
command writes the same `episodes.jsonl` whatever `num_workers` is.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from math import hypot
from pathlib import Path
from typing import Any, Protocol

from rearrange.errors import UserError


class Agent(Protocol):
    """What acts in an episode, as `rearrange.planner.agents.make_agent` gives it."""

    attempts: list[tuple[str, bool]]  # skills tried so far in this episode, and whether each worked
    status: str  # the running step of the plan
    plan_lines: list[str]  # done with +, running with >, to come with a blank
    failure: str | None  # what went wrong, if the episode failed

    def reset(self, observation: Any, info: dict[str, Any]) -> None: ...
    def act(self, observation: Any, info: dict[str, Any]) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class WorldCfg:
    """What a worker needs to know to run any episode of an evaluation."""

    task: str
    agent: str
    split: str
    seed: int
    episodes: str | None = None  # a file to take them from; an index is then a place in it
    record: int = 0  # films the episodes with a lower index
    video_dir: str = ""
    renderer: str = "auto"
    title: str = ""  # of the task, in videos
    checkpoint: str | None = None  # for agent learned: a run's folder or a skill file
    sample: bool = False  # for agent learned: draw actions as in training


@dataclass(kw_only=True)
class EpisodeRecord:
    """One line of `episodes.jsonl`."""

    index: int
    scene: str
    """Layout id of the apartment."""
    success: bool
    stages: dict[str, bool]
    """Stage -> reached at any time, in the task's order."""
    failure: str | None
    """What went wrong; None after a success."""
    steps: int
    """Control steps."""
    force: float
    """Accumulated collision force (N)."""
    path_length: float
    """Way of the base (m)."""
    attempts: list[tuple[str, bool]] = field(default_factory=list)
    """Skills in the order tried, and whether each worked."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


MakeWorld = Callable[[WorldCfg], tuple[Any, Agent]]


def make_world(cfg: WorldCfg) -> tuple[Any, Agent]:
    """The environment and the agent of an evaluation; only what has learned to see gets an image.

    Raises:
        UserError: for an unknown task, split or agent, or a skill file that does not fit.
    """
    from rearrange.planner.agents import make_agent
    from rearrange.tasks.registry import make_env

    options: dict[str, Any] = {"depth": False}
    skill = None
    if cfg.agent == "learned" and cfg.checkpoint is not None:
        import torch

        from rearrange.skills.skill_files import find_skill

        torch.set_num_threads(1)  # the other cores have workers of their own
        skill = find_skill(Path(cfg.checkpoint))
        known = ("camera_size", "observation_delay")
        options = {name: skill.env_kwargs[name] for name in known if name in skill.env_kwargs}
    env = make_env(task=cfg.task, split=cfg.split, seed=cfg.seed, **options)
    return env, make_agent(cfg.agent, env, skill, cfg.sample)


def check_names(task: str, agent: str, split: str) -> None:
    """Raises UserError for a task, agent or split that does not exist."""
    from rearrange.planner.agents import AGENTS
    from rearrange.tasks.registry import TASKS

    check_name("task", task, TASKS)
    check_name("agent", agent, AGENTS)
    check_split(split)


def check_split(split: str) -> None:
    """Raises UserError for a split that does not exist."""
    from rearrange.sim.layout import SPLITS

    check_name("split", split, SPLITS)


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Raises UserError, with the nearest or all of the known names, for an unknown one."""
    from rearrange.configs.load import nearest

    if name not in known:
        raise UserError(f"unknown {kind} '{name}': {nearest(name, list(known))}")


def reset_options(cfg: WorldCfg, index: int) -> dict[str, Any]:
    """What tells the environment which episode to start.

    Raises:
        UserError: if the episode file is not whole, or has no episode of that index.
    """
    if cfg.episodes is None:
        return {"index": index}
    episodes = _read_episodes(cfg.episodes)
    if not 0 <= index < len(episodes):
        have = f"{cfg.episodes} has {len(episodes)} episodes"
        raise UserError(f"{have}, from index 0: there is no index {index}")
    return {"episode": episodes[index]}


@lru_cache(maxsize=1)
def _read_episodes(path: str) -> tuple[Any, ...]:
    from rearrange.tasks.episode_files import read_episodes

    return read_episodes(path)


def video_path(cfg: WorldCfg, index: int) -> Path:
    """Where the film of an episode goes."""
    return Path(cfg.video_dir) / f"episode_{index:04d}.mp4"


def run_episode(env: Any, agent: Agent, cfg: WorldCfg, index: int) -> EpisodeRecord:
    """Runs one episode to its end, filming it if `cfg.record` covers its index."""
    if index >= cfg.record:
        return follow_episode(env, agent, cfg, index, lambda info: None)
    from rearrange.eval.film import filming  # imports the renderer, which only films need

    with filming(env, agent, video_path(cfg, index), cfg.renderer, cfg.title) as watch:
        return follow_episode(env, agent, cfg, index, watch)


def follow_episode(
    env: Any, agent: Agent, cfg: WorldCfg, index: int, watch: Callable[[dict[str, Any]], None]
) -> EpisodeRecord:
    """Runs an episode; `watch(info)` is called after the reset and after every step."""
    observation, info = env.reset(options=reset_options(cfg, index))
    agent.reset(observation, info)
    world = env.unwrapped
    x, y = world.sim.base_pose[:2]
    path_length, steps, is_over, truncated = 0.0, 0, False, False
    watch(info)
    while not is_over:
        action = agent.act(observation, info)
        observation, _, terminated, truncated, info = env.step(action)
        is_over = terminated or truncated
        steps += 1
        new_x, new_y = world.sim.base_pose[:2]
        path_length += hypot(new_x - x, new_y - y)
        x, y = new_x, new_y
        watch(info)
    success = bool(info["success"])
    return EpisodeRecord(
        index=index,
        scene=world.episode.scene.layout_id,
        success=success,
        stages={name: bool(reached) for name, reached in info["stages"].items()},
        failure=None if success else _failure(agent, info, truncated),
        steps=steps,
        force=round(float(info["force_accum"]), 3),
        path_length=round(float(path_length), 4),
        attempts=[(str(name), bool(worked)) for name, worked in agent.attempts],
    )


def _failure(agent: Agent, info: dict[str, Any], truncated: bool) -> str:
    hint = agent.failure or info.get("failure")
    return str(hint or ("out of time" if truncated else "stopped too early"))
