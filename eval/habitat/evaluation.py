"""`backend=habitat`: our agents, unchanged, on our exported episodes in stock habitat-lab.

learned           acts by Habitat's own sensors
oracle, chains    act by a twin of Habitat's home, see `twin`; their pictures are Habitat's
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import hypot
from pathlib import Path
from typing import Any

from rearrange.configs.schema import EvaluateCfg, RecordCfg
from rearrange.errors import UserError
from rearrange.eval.evaluate import evaluate, output_folder
from rearrange.eval.evaluate import evaluate_settings as evaluate_in_mujoco
from rearrange.eval.habitat.client import HabitatEnv, check_python, versions_of
from rearrange.eval.habitat.data_folder import DataFolder, find_data
from rearrange.eval.habitat.lab.stock_env import StockCfg
from rearrange.eval.habitat.lab.tasks import STOCK_TASKS, episode_file
from rearrange.eval.habitat.twin import TwinEnv
from rearrange.eval.missing_episodes import Notify, print_line
from rearrange.eval.runner import (
    EpisodeRecord,
    EpisodeRunnerCfg,
    check_names,
    follow_episode,
    paths_of_skills,
    runner_cfg,
    skill_of,
)
from rearrange.eval.runner import make_env_and_agent as make_ours
from rearrange.habitat.dataset import exported
from rearrange.planner.home.descriptions import names_of
from rearrange.system.files import file_digest
from rearrange.tasks.episodes.files import load_episode

FILM_SIZE = 512  # pixels a side
_UNSEEN = 8  # pixels a side of an image that nobody looks at
_FPS = 30


@dataclass(frozen=True, kw_only=True)
class HabitatRunnerCfg(EpisodeRunnerCfg):
    """What a worker needs to run an episode there, see `workers.EpisodeRunner`."""

    python: str
    folder: str
    there: tuple[tuple[str, str], ...]
    """Versions of its packages."""
    base: str
    """How the base moves there, see `driven_base`."""
    is_export: bool
    """Whether the episodes are exported ones of ours; else habitat-lab's own."""
    digest: str
    """Of the file with the episodes there."""
    num_episodes: int
    """How many the folder must have."""

    def elsewhere(self) -> dict[str, Any]:
        data = "export" if self.is_export else "habitat-lab's own"
        there = {**dict(self.there), "base": self.base, "data": data, "episodes": self.digest}
        return {"backend": "habitat", "habitat": there}

    def run_episode(
        self, env: HabitatEnv | TwinEnv, agent: Any, index: int, on_step: Callable[[], None]
    ) -> EpisodeRecord:
        if index >= self.record:
            _there(env).film(0)
            return follow(env, agent, self, index, on_step)
        return film(env, agent, self, index, self.video_path(index), on_step)


def evaluate_settings(cfg: EvaluateCfg, notify: Notify = print_line) -> tuple[dict[str, Any], Path]:
    """Runs the evaluation in either simulator: its summary and its folder. Raises UserError."""
    if cfg.backend == "mujoco":
        return evaluate_in_mujoco(cfg, notify)
    check_names(cfg.task.name, cfg.agent, cfg.split, cfg.homes)
    folder = output_folder(cfg)
    return evaluate(cfg, make_env_and_agent, notify, runner), folder


def runner(cfg: EvaluateCfg | RecordCfg, **more: Any) -> EpisodeRunnerCfg:
    """`runner_cfg` for episodes there. Raises UserError for what does not fit."""
    python, data = check_habitat(cfg)
    task = cfg.task.name
    versions = tuple(sorted(versions_of(python).items()))
    return runner_cfg(
        cfg,
        HabitatRunnerCfg,
        python=python,
        folder=str(data.path),
        there=versions,
        base=cfg.habitat.base,
        is_export=data.is_export,
        digest=file_digest(data.path / episode_file(STOCK_TASKS[task], cfg.split, data.is_export)),
        num_episodes=_number(cfg),
        **more,
    )


def film_in_habitat(cfg: RecordCfg, path: Path) -> EpisodeRecord:
    """Films the episode of `cfg.index` by habitat-lab's own pictures. Raises UserError."""
    there = runner(cfg, record=cfg.index + 1)
    assert isinstance(there, HabitatRunnerCfg)
    env, agent = make_env_and_agent(there)
    try:
        return film(env, agent, there, cfg.index, path)
    finally:
        env.close()


def check_habitat(cfg: EvaluateCfg | RecordCfg) -> tuple[str, DataFolder]:
    """Habitat's Python and the folder of its data. Raises UserError for what does not fit."""
    task = cfg.task.name
    if task not in STOCK_TASKS:
        raise UserError(f"backend=habitat runs {', '.join(STOCK_TASKS)}; got task={task}")
    for name, usual in (("homes", "hab"), ("episodes", None), ("scheme", "local")):
        if (value := getattr(cfg, name, usual)) != usual:
            raise UserError(
                f"backend=habitat takes the episodes of habitat.data, {name}={value} has no use"
            )
    python = check_python(cfg.habitat.python)
    number = _number(cfg)
    how = f" num_episodes={number} seed={cfg.seed}"
    data = find_data(cfg.habitat.data, task, cfg.split, how)
    if data.is_export:
        check_export(data.path, task, cfg.split, number, cfg.seed)
    elif cfg.agent != "learned":
        raise UserError(
            f"agent={cfg.agent} acts by a twin of one of our homes, habitat.data={data.path} has "
            "habitat-lab's own: agent=learned, or the folder of an export"
        )
    return python, data


def _number(cfg: EvaluateCfg | RecordCfg) -> int:
    return cfg.num_episodes if isinstance(cfg, EvaluateCfg) else cfg.index + 1


def check_export(folder: Path, task: str, split: str, num_episodes: int, seed: int) -> None:
    """Raises UserError unless the folder has these episodes."""
    count, seed_there = exported(folder, task, split)
    if count < num_episodes or seed_there != seed:
        has = f"{count} of seed {seed_there}" if count else "none"
        raise UserError(
            f"habitat.data={folder} must have {num_episodes} episodes of {task}, {split}, seed "
            f"{seed}, it has {has}: rearrange export-homes output={folder} split={split} "
            f"tasks={task} num_episodes={num_episodes} seed={seed}"
        )


def make_env_and_agent(cfg: HabitatRunnerCfg) -> tuple[HabitatEnv | TwinEnv, Any]:
    """The environment there and the agent here. Raises UserError for what is missing."""
    film_size = FILM_SIZE if cfg.record else 0  # those with a film come first
    stock = StockCfg(
        task=cfg.task, split=cfg.split, seed=cfg.seed, film_size=film_size, base=cfg.base,
        is_export=cfg.is_export,
    )  # fmt: skip
    if cfg.agent != "learned":

        def start_twin(
            *, homes: str, depth: bool, camera_size: int = 128, **options: Any
        ) -> TwinEnv:
            size = camera_size if depth else _UNSEEN
            there = _start(cfg, replace(stock, camera_size=size), 0)
            return TwinEnv(there, depth=depth, **options)

        return make_ours(cfg, start_twin)
    import torch

    from rearrange.skills.deployed.learned import LearnedPolicy
    from rearrange.skills.deployed.skill_files import find_skill
    from rearrange.skills.deployed.trained_skills import check_weights_unchanged

    torch.set_num_threads(1)
    skill = LearnedPolicy(find_skill(skill_of(cfg)), cfg.chain.is_sampling)
    check_weights_unchanged(paths_of_skills(cfg), cfg.weights)
    if skill.task != cfg.task:
        raise UserError(f"the skill must be one of {cfg.task}, it is one of {skill.task}")
    has_ranges = "coarse_depth" in skill.observation
    stock = replace(
        stock, motor_lead=skill.motor_lead, has_ranges=has_ranges,
        camera_size=64 if has_ranges else skill.camera_size,
    )  # fmt: skip
    return _start(cfg, stock, skill.observation_delay), skill


def _start(cfg: HabitatRunnerCfg, stock: StockCfg, delay: int) -> HabitatEnv:
    there = HabitatEnv(cfg.python, Path(cfg.folder), stock, delay)
    if there.num_episodes < cfg.num_episodes:
        there.close()
        raise UserError(
            f"habitat.data={cfg.folder} must have {cfg.num_episodes} episodes of {cfg.task}, "
            f"{cfg.split}, it has {there.num_episodes}"
        )
    return there


def film(
    env: HabitatEnv | TwinEnv, agent: Any, cfg: HabitatRunnerCfg, index: int, path: Path,
    on_step: Callable[[], None] = lambda: None,
) -> EpisodeRecord:  # fmt: skip
    """`follow`, with a film of it."""
    from rearrange.eval.film.env_film import film_env

    there = _there(env)
    there.film(FILM_SIZE)
    with film_env(there, path, _FPS) as add:

        def watch() -> None:
            add()
            on_step()

        return follow(env, agent, cfg, index, watch)


def _there(env: HabitatEnv | TwinEnv) -> HabitatEnv:
    return env.there if isinstance(env, TwinEnv) else env


def follow(
    env: HabitatEnv | TwinEnv, agent: Any, cfg: HabitatRunnerCfg, index: int,
    watch: Callable[[], None],
) -> EpisodeRecord:  # fmt: skip
    """Runs an episode; `watch` is called after the reset and after every step."""
    if isinstance(env, TwinEnv):
        return follow_episode(env, agent, cfg, index, lambda info: watch())
    observation, facts = env.reset(index)
    agent.reset(index)
    watch()
    path_length = 0.0
    while not facts["is_over"]:
        x, y = facts["base"]
        observation, facts = env.step(agent.act(observation))
        path_length += hypot(facts["base"][0] - x, facts["base"][1] - y)
        watch()
    success, targets = bool(facts["success"]), dict[str, list[str]]()
    scene = Path(facts["scene"]).name.split(".")[0]
    if cfg.is_export:
        episode = load_episode(cfg.task, cfg.split, cfg.seed, index)
        scene = episode.scene.layout_id
        targets = {name: list(names) for name, names in names_of(episode).items()}
    return EpisodeRecord(
        index=index,
        scene=scene,
        success=success,
        stages={},
        failure=None if success else str(facts["failure"]),
        steps=int(facts["steps"]),
        force=round(float(facts["force"]), 3),
        path_length=round(path_length, 4),
        attempts=[(cfg.task, success)],
        targets=targets,
    )
