"""Runs one agent through one episode and returns a record.

The record holds nothing that depends on the machine, the worker or the clock, so that the same
command writes the same `episodes.jsonl` whatever `num_workers` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from math import hypot
from pathlib import Path
from typing import Any

from rearrange.configs.collecting import CollectCfg
from rearrange.configs.schema import AgentSettings, EvaluateCfg, RecordCfg
from rearrange.configs.viewing import ViewCfg
from rearrange.errors import UserError
from rearrange.planner.agents.agent import Agent, begin_episode
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.home.descriptions import Descriptions, names_of, running_step
from rearrange.system.outputs import expand


@dataclass(frozen=True, kw_only=True)
class EpisodeRunnerCfg:
    """The settings a worker needs to run any episode of an evaluation."""

    task: str
    agent: str
    split: str
    seed: int
    homes: str = "hab"
    home_file: str = ""  # digest of the file that `homes` is; it must stay as it is
    episodes: str | None = None  # a file of episodes; an index is then a position in it
    record: int = 0  # films the episodes with a lower index
    video_dir: str = ""
    renderer: str = "auto"
    title: str = ""  # of the task, in videos
    checkpoint: str | None = None  # for agent learned: a run's folder or a skill file
    weights: dict[str, str] = field(default_factory=dict)  # skill -> digest; they must stay so
    chain: ChainCfg = field(default_factory=ChainCfg)  # for agents that plan; trained skills

    def elsewhere(self) -> dict[str, Any]:
        """What determines the episodes of another simulator, beside all this."""
        return {}

    def run_episode(
        self, env: Any, agent: Agent, index: int, on_step: Callable[[], None]
    ) -> EpisodeRecord:
        return run_episode(env, agent, self, index, on_step)

    def read_record(self, values: dict[str, Any]) -> EpisodeRecord:
        """A record that a worker sent."""
        return EpisodeRecord(**values)

    def progress_text(self, records: list[EpisodeRecord]) -> str:
        """For the progress: how many succeeded."""
        return f"success {sum(record.success for record in records) / len(records):.1%}"

    def video_path(self, index: int) -> Path:
        """Where the film of an episode goes."""
        return film_of(self.video_dir, index)


def runner_cfg(
    cfg: EvaluateCfg | RecordCfg | ViewCfg | CollectCfg,
    kind: type[EpisodeRunnerCfg] = EpisodeRunnerCfg,
    **more: Any,
) -> EpisodeRunnerCfg:
    """The runner's settings from those of a verb; `more`: fields of only one verb, or kind.

    Raises UserError for a trained skill that is missing and for settings that do not fit together,
    before any work is done.
    """
    from rearrange.sim.homes.layout import check_homes

    check_accepted(cfg, cfg.agent)
    chain = ChainCfg(
        skills=expand(cfg.skills),
        oracle_skills=tuple(cfg.oracle_skills),
        is_sampling=cfg.sample,
        looks=_looks(cfg),
        max_failures=cfg.max_failures,
        limits=dict(cfg.limits),
    )
    runner = kind(
        task=cfg.task.name,
        agent=cfg.agent,
        split=cfg.split,
        seed=cfg.seed,
        homes=cfg.homes,
        home_file=check_homes(cfg.homes),
        checkpoint=expand(cfg.checkpoint),
        chain=chain,
        **more,
    )
    return replace(runner, weights=weights_of_skills(runner))


def check_accepted(cfg: AgentSettings, agent: str | None) -> None:
    """Raises UserError for a setting that the agent would ignore; None: a person at the keys."""
    from rearrange.planner.agents.agent import AGENTS
    from rearrange.planner.agents.skill_set import accepted_settings_of

    accepted_settings = accepted_settings_of(agent) if agent is not None else ()
    unset = AgentSettings()
    for setting in fields(AgentSettings):
        if setting.name in ("agent", "homes", *accepted_settings):
            continue
        if getattr(cfg, setting.name) != getattr(unset, setting.name):
            those = ", ".join(name for name in AGENTS if setting.name in accepted_settings_of(name))
            own = ", ".join(accepted_settings) or "no setting of agents"
            raise UserError(f"{setting.name} is for agent={those}; agent={cfg.agent} accepts {own}")


def _looks(cfg: AgentSettings) -> str:
    from rearrange.planner.agents.skill_set import variant_of

    if cfg.looks != "auto":
        return cfg.looks
    return "own" if variant_of(cfg.agent) is not None else "privileged"


def sources_of_skills(runner: EpisodeRunnerCfg) -> dict[str, Any]:
    """For summaries: what carries out the steps of an agent that uses trained skills, else nothing.

    Raises UserError for a skill that is missing and for settings that the agent has no use for.
    """
    from rearrange.planner.agents.skill_set import chaining_agents, skill_paths, variant_of

    chain = runner.chain
    variant = variant_of(runner.agent)
    if variant is not None:
        paths = skill_paths(runner.task, runner.agent, chain)
        skipped = variant.skipped
        return {
            "trained_skills": {skill: str(path) for skill, path in paths.items()},
            "oracle_skills": [name for name in chain.oracle_skills if name not in skipped],
            "skipped_skills": sorted(skipped),
            "looks": chain.looks,
            "max_failures": chain.max_failures,
            "limits": dict(chain.limits),
        }
    for name in ("oracle_skills", "limits"):
        if getattr(chain, name):
            raise UserError(
                f"{name} is for agent={', '.join(chaining_agents())}; got agent={runner.agent}"
            )
    if chain.looks == "own":
        known = ", ".join(chaining_agents())
        raise UserError(f"looks=own is for agent={known}; got agent={runner.agent}")
    if runner.agent == "teacher":
        from rearrange.planner.agents.registry import check_teacher
        from rearrange.tasks.rules.definition import TASKS

        check_teacher(TASKS.find(runner.task).name)
    if runner.agent == "learned":
        return {"trained_skills": {runner.task: str(skill_of(runner))}}
    return {}


def paths_of_skills(runner: EpisodeRunnerCfg) -> dict[str, str]:
    """Skill -> file or run's folder with its trained weights. Raises as `sources_of_skills`."""
    return sources_of_skills(runner).get("trained_skills", {})


def weights_of_skills(runner: EpisodeRunnerCfg) -> dict[str, str]:
    """Skill -> digest of its trained weights as they are now. Raises UserError."""
    from rearrange.skills.deployed.trained_skills import weights_digest

    return {name: weights_digest(Path(path)) for name, path in paths_of_skills(runner).items()}


def skill_of(runner: EpisodeRunnerCfg) -> Path:
    """The skill of agent=learned: from the checkpoint, or by the task's name."""
    from rearrange.skills.deployed.trained_skills import skill_path
    from rearrange.tasks.rules.definition import TASKS
    from rearrange.tasks.rules.names import SKILL_TASKS

    if runner.checkpoint is not None:
        return Path(runner.checkpoint)
    task = TASKS.find(runner.task).name
    if task not in SKILL_TASKS:
        known = ", ".join(SKILL_TASKS)
        raise UserError(
            f"agent=learned needs checkpoint= for {runner.task}: skills go by the names {known}"
        )
    return skill_path(task, runner.chain.skills)


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
    """The failure; None after a success."""
    steps: int
    """Control steps."""
    force: float
    """Accumulated collision force (N)."""
    path_length: float
    """Path length of the base (m)."""
    attempts: list[tuple[str, bool]] = field(default_factory=list)
    """Skills in the order tried, and whether each succeeded."""
    targets: dict[str, list[str]] = field(default_factory=dict)
    """Target -> kind of the object, receptacle at the start, receptacle of the goal."""
    last_step: str = ""
    """The skill that was running when a failed episode ended; empty for none."""

    def result(self) -> str:
        """How it ended, in words."""
        if self.failure is None:
            return "success"
        return Descriptions(self.targets).failure(self.failure, self.last_step)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make_env_and_agent(
    cfg: EpisodeRunnerCfg, make: Callable[..., Any] | None = None, **more: Any
) -> tuple[Any, Agent]:
    """The environment and the agent of an evaluation; images only for agents that use them.

    Args:
        make: called with the settings of the environment; by default `tasks.registry.make_env`.
        more: further settings of the environment.

    Raises:
        UserError: for an unknown task, split or agent, or a skill file that does not fit.
    """
    from rearrange.planner.agents.registry import make_agent
    from rearrange.planner.agents.skill_set import load_skill_set, variant_of
    from rearrange.sim.homes.layout import check_unchanged
    from rearrange.skills.deployed.trained_skills import check_weights_unchanged
    from rearrange.tasks.registry import make_env
    from rearrange.tasks.rules.definition import TASKS

    TASKS.find(cfg.task)  # imports the user's module, in a worker too
    if cfg.home_file:
        check_unchanged(cfg.homes, cfg.home_file, "this evaluation")
    options: dict[str, Any] = {"depth": False}
    skill = skills = None
    if cfg.agent == "learned":
        import torch

        from rearrange.skills.deployed.skill_files import find_skill

        torch.set_num_threads(1)  # the other cores have their own workers
        skill = find_skill(skill_of(cfg))
        options = skill.sensing_options()
    if variant_of(cfg.agent) is not None:
        skills = load_skill_set(cfg.task, cfg.agent, cfg.chain)
        options = skills.env_options
        if skills.policies:
            import torch

            torch.set_num_threads(1)
    if cfg.weights:
        check_weights_unchanged(paths_of_skills(cfg), cfg.weights)
    env = (make or make_env)(
        task=cfg.task, split=cfg.split, seed=cfg.seed, homes=cfg.homes,
        **options | more,
    )  # fmt: skip
    return env, make_agent(cfg.agent, env, skill, cfg.chain.is_sampling, skills, cfg.chain)


def check_names(task: str, agent: str, split: str, homes: str) -> None:
    """Raises UserError for a task, agent, split or set of homes that does not exist."""
    from rearrange.planner.agents.agent import AGENTS
    from rearrange.tasks.rules.definition import TASKS

    TASKS.find(task)
    AGENTS.find(agent)
    check_split(split, homes)


def check_split(split: str, homes: str = "hab") -> None:
    """Raises UserError for a split or a set of homes that does not exist."""
    from rearrange.sim.homes.layout import SPLITS, check_homes

    check_name("split", split, SPLITS)
    check_homes(homes)


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Raises UserError, with the nearest or all of the known names, for an unknown one."""
    from rearrange.errors import nearest

    if name not in known:
        raise UserError(f"unknown {kind} '{name}': {nearest(name, list(known))}")


def reset_options(cfg: EpisodeRunnerCfg, index: int) -> dict[str, Any]:
    """Options of `reset` that select the episode.

    Raises:
        UserError: if the episode file is damaged, or has no episode of that index and task.
    """
    from rearrange.tasks.rules.definition import TASKS

    if cfg.episodes is None:
        return {"index": index}
    episodes = _read_episodes(cfg.episodes)
    if not 0 <= index < len(episodes):
        have = f"{cfg.episodes} has {len(episodes)} episodes"
        raise UserError(f"{have}, from index 0: there is no index {index}")
    task, episode = TASKS.find(cfg.task).name, episodes[index]
    if episode.task != task:
        line = f"{cfg.episodes}: episode {index} is of task {episode.task}, not of {task}"
        raise UserError(f"{line}: give task={episode.task}")
    return {"episode": episode}


@lru_cache(maxsize=1)
def _read_episodes(path: str) -> tuple[Any, ...]:
    from rearrange.tasks.episodes.files import read_episodes

    return read_episodes(path)


def film_of(folder: str, index: int) -> Path:
    """The name of an episode's film."""
    return Path(folder) / f"episode_{index:04d}.mp4"


def run_episode(
    env: Any, agent: Agent, cfg: EpisodeRunnerCfg, index: int, on_step: Callable[[], None]
) -> EpisodeRecord:
    """Runs one episode to its end, filming it if `cfg.record` covers its index."""
    if index >= cfg.record:
        return follow_episode(env, agent, cfg, index, lambda info: on_step())
    # Imports the renderer, which only films need.
    from rearrange.eval.film.film import BESIDE_EVALUATION, filming

    path = cfg.video_path(index)
    with filming(env, agent, path, cfg.renderer, cfg.title, BESIDE_EVALUATION) as film:

        def watch(info: dict[str, Any]) -> None:
            film(info)
            on_step()

        return follow_episode(env, agent, cfg, index, watch)


def follow_episode(
    env: Any,
    agent: Agent,
    cfg: EpisodeRunnerCfg,
    index: int,
    watch: Callable[[dict[str, Any]], None],
) -> EpisodeRecord:
    """Runs an episode; `watch(info)` is called after the reset and after every step."""
    observation, info = env.reset(options=reset_options(cfg, index))
    begin_episode(agent, observation, info)
    home = env.unwrapped
    x, y = home.sim.base_pose[:2]
    path_length, steps, is_over, truncated = 0.0, 0, False, False
    watch(info)
    while not is_over:
        action = agent.act(observation, info)
        observation, _, terminated, truncated, info = env.step(action)
        is_over = terminated or truncated
        steps += 1
        new_x, new_y = home.sim.base_pose[:2]
        path_length += hypot(new_x - x, new_y - y)
        x, y = new_x, new_y
        watch(info)
    success = bool(info["success"])
    return EpisodeRecord(
        index=index,
        scene=home.episode.scene.layout_id,
        success=success,
        stages={name: bool(reached) for name, reached in info["stages"].items()},
        failure=None if success else _failure(agent, info, truncated),
        steps=steps,
        force=round(float(info["force_accum"]), 3),
        path_length=round(float(path_length), 4),
        attempts=[(str(name), bool(worked)) for name, worked in agent.attempts],
        targets={name: list(names) for name, names in names_of(home.episode).items()},
        last_step="" if success else running_step(home.episode, agent.status),
    )


def _failure(agent: Agent, info: dict[str, Any], truncated: bool) -> str:
    hint = agent.failure or info.get("failure")
    return str(hint or ("out of time" if truncated else "stopped too early"))
