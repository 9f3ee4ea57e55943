"""A trained policy in the environment it was trained in, whichever that is.

    episode i:  env.reset(seed=f(seed, i)), a policy without memories, until the environment ends it

`evaluate run=RUN` of a skill of the home is the evaluation of `agent=learned` in its task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.configs.schema import AgentSettings, EvaluateCfg, RecordCfg, TaskCfg
from rearrange.errors import UserError
from rearrange.eval.episode_store import EpisodeStore, code_digest, own_modules
from rearrange.eval.intervals import mean_over_seeds, wilson
from rearrange.eval.missing_episodes import Notify, run_missing, versions
from rearrange.eval.runner import film_of
from rearrange.system.checked_json import strict_json
from rearrange.system.files import user_path
from rearrange.system.folder_lock import lock_folder
from rearrange.system.outputs import atomic_write_json, prepare_folder

_STREAM = 0x6576616C  # other episodes than training has with the same seed
_USUAL_FPS = 30
_OF_ALL = ("sample", "homes")  # agents of the home, `learned` among them


@dataclass(kw_only=True)
class ReturnRecord:
    """One line of `episodes.jsonl`."""

    index: int
    seed: int
    """What the environment was reset with."""
    total_return: float
    steps: int
    success: bool | None
    """What the environment's last `info` says under this name; None if nothing."""
    truncated: bool
    """Ended by a limit of time instead of by itself."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class TrainedRunnerCfg:
    """What a worker needs to know to run any episode, see `workers.EpisodeRunner`."""

    run: str
    seed: int
    env: str | None = None  # named by the user: its module is imported
    weights: str = ""  # their digest, which must stay so
    is_sampling: bool = False
    record: int = 0
    video_dir: str = ""
    title: str = ""

    def run_episode(
        self, env: Any, policy: Any, index: int, on_step: Callable[[], None]
    ) -> ReturnRecord:
        """One episode, filmed if `record` covers its index."""
        if index >= self.record:
            return follow(env, policy, self.seed, index, on_step)
        return film(env, policy, self.seed, index, self.video_path(index), on_step)

    def read_record(self, values: dict[str, Any]) -> ReturnRecord:
        return ReturnRecord(**values)

    def progress_text(self, records: list[ReturnRecord]) -> str:
        return f"return {np.mean([record.total_return for record in records]):.4g}"

    def video_path(self, index: int) -> Path:
        return film_of(self.video_dir, index)


def make_env_and_policy(cfg: TrainedRunnerCfg) -> tuple[Any, Any]:
    """The environment and the policy. Raises UserError for what is missing or does not fit."""
    import torch

    from rearrange.skills.deployed.learned import TrainedPolicy
    from rearrange.skills.deployed.skill_files import find_skill
    from rearrange.skills.deployed.trained_skills import check_weights_unchanged
    from rearrange.tasks.gym_factory import find_id

    torch.set_num_threads(1)  # the other cores have workers of their own
    if cfg.env is not None:
        find_id(cfg.env)  # imports its module
    policy = TrainedPolicy(find_skill(Path(cfg.run)), cfg.is_sampling)
    if cfg.weights:
        check_weights_unchanged({"run": cfg.run}, {"run": cfg.weights})
    _check_env(cfg.run, cfg.env, policy.env_id)
    pictures = {"render_mode": "rgb_array"} if cfg.record else {}
    return policy.make_env(**pictures), policy


def _check_env(run: str, given: str | None, env_id: str) -> None:
    """Raises UserError if `env=` names another environment than that of the training."""
    from rearrange.tasks.gym_factory import find_id

    if given is not None and find_id(given) != find_id(env_id):
        raise UserError(f"{run} was trained in {env_id}, not in {given}")


def home_evaluation(cfg: Any) -> Any:
    """`run=` of a skill of the home as the task and the agent that it stands for.

    Args:
        cfg: EvaluateCfg or RecordCfg; without `run` it stays as it is, as with another environment.

    Raises UserError if there is no trained policy, and for settings that do not go with `run`.
    """
    if cfg.run is None:
        if cfg.env is not None:
            raise UserError(f"env={cfg.env} goes with run=, the folder of a run trained in it")
        return cfg
    _check_defaults(
        cfg, [field.name for field in fields(AgentSettings) if field.name not in _OF_ALL]
    )
    from rearrange.skills.deployed.skill_files import find_skill
    from rearrange.tasks.gym_factory import find_id
    from rearrange.tasks.rules.definition import TASKS
    from rearrange.tasks.rules.names import TASK_OF_ID

    if cfg.env is not None:
        find_id(cfg.env)
    cfg = replace(cfg, run=str(user_path(cfg.run)))
    env_id = find_skill(Path(cfg.run)).env_id
    _check_env(cfg.run, cfg.env, env_id)
    chosen = cfg.given.choices.get("task") if cfg.given is not None else None
    if env_id not in TASK_OF_ID:
        _check_defaults(cfg, ["split", "episodes", "renderer", "homes"])
        if chosen is not None:
            raise UserError(f"{cfg.run} was trained in {env_id}: leave out task={chosen}")
        return cfg
    task = TASKS.find(TASK_OF_ID[env_id])
    if chosen is not None and TASKS.find(chosen) is not task:
        raise UserError(f"{cfg.run} was trained for {task.name}: leave out task={chosen}")
    module = cfg.env.rpartition(":")[0] if cfg.env is not None else ""
    word = f"{module}:{task.name}" if module else task.name  # for processes that know neither yet
    task_cfg = TaskCfg(name=word, title=task.title, stage_skills=[])
    return replace(cfg, task=task_cfg, agent="learned", checkpoint=cfg.run, run=None, env=None)


def _check_defaults(cfg: Any, names: list[str]) -> None:
    for field in fields(cfg):
        default = field.default
        if default is MISSING:
            assert field.default_factory is not MISSING  # none of these has to be given
            default = field.default_factory()
        if field.name in names and getattr(cfg, field.name) != default:
            raise UserError(f"{field.name} cannot be combined with run=, which determines it")


def run_output_folder(cfg: EvaluateCfg) -> Path:
    """Where the results go."""
    if cfg.output_dir is not None:
        return user_path(cfg.output_dir)
    assert cfg.run is not None  # what else is there to evaluate
    run = Path(cfg.run)
    return Path("outputs/evaluate") / (run.resolve().name if run.is_dir() else run.stem)


def evaluate_run(cfg: EvaluateCfg, notify: Notify) -> dict[str, Any]:
    """As `evaluate.evaluate`, of a trained policy in its own environment: returns the summary.

    Raises UserError if the folder is in use, or holds other results.
    """
    from rearrange.skills.deployed.skill_files import find_skill
    from rearrange.skills.deployed.trained_skills import weights_digest

    assert cfg.run is not None
    weights = weights_digest(Path(cfg.run))
    skill, folder = find_skill(Path(cfg.run)), run_output_folder(cfg)
    runner = TrainedRunnerCfg(
        run=cfg.run, weights=weights, seed=cfg.seed, env=cfg.env, is_sampling=cfg.sample,
        record=cfg.record, video_dir=str(folder / "videos"), title=skill.env_id,
    )  # fmt: skip
    make_env_and_policy(runner)[0].close()  # what is wrong is better said before the work
    about = {
        "env": skill.env_id, "env_kwargs": skill.env_kwargs, "run": cfg.run, "sample": cfg.sample,
        "seed": cfg.seed, "trained_steps": skill.origin["steps"],
    }  # fmt: skip
    settings = about | {
        "run": weights, "versions": versions(), "code": code_digest(), **own_modules((cfg.env,))
    }  # fmt: skip
    with lock_folder(folder, "output_dir") as lock:
        prepare_folder(folder)
        if cfg.record:
            prepare_folder(folder / "videos")
        store = EpisodeStore(folder, settings, cfg.num_episodes, _parsed)
        run_facts = run_missing(cfg, runner, make_env_and_policy, store, lock, notify)
        records = [store.records[index] for index in range(cfg.num_episodes)]
        summary = about | {"num_episodes": cfg.num_episodes} | summarise(records) | run_facts
        summary |= {"acting": store.acting, "versions": versions()}
        try:  # the table before the files, which a full disk may refuse
            notify(table(summary))
        finally:
            store.write()
            atomic_write_json(folder / "summary.json", summary)
    notify(f"\nsummary: {folder / 'summary.json'}")
    for film_path in map(runner.video_path, range(min(cfg.record, cfg.num_episodes))):
        notify(f"video:   {film_path}")
    return summary


def record_run(cfg: RecordCfg) -> ReturnRecord:
    """Films the episode of `index` by the environment's own pictures. Raises UserError."""
    assert cfg.run is not None
    runner = TrainedRunnerCfg(
        run=cfg.run, seed=cfg.seed, env=cfg.env, is_sampling=cfg.sample, record=cfg.index + 1
    )
    env, policy = make_env_and_policy(runner)
    return film(env, policy, cfg.seed, cfg.index, user_path(cfg.output))


def follow(
    env: Any, policy: Any, seed: int, index: int, watch: Callable[[], None] = lambda: None
) -> ReturnRecord:
    """Runs an episode; `watch` is called after the reset and after every step."""
    numbers = np.random.SeedSequence([_STREAM, seed, index])
    episode_seed = int(numbers.generate_state(1)[0] >> 1)
    observation, info = env.reset(seed=episode_seed)
    policy.reset(index)
    total, steps, terminated, truncated = 0.0, 0, False, False
    watch()
    while not (terminated or truncated):
        observation, reward, terminated, truncated, info = env.step(policy.act(observation))
        total, steps = total + float(reward), steps + 1
        watch()
    if not np.isfinite(total):
        raise UserError(f"{policy.env_id} gave a return of {total} in episode {index}")
    success = info.get("success") if isinstance(info, Mapping) else None
    return ReturnRecord(
        index=index, seed=episode_seed, total_return=total, steps=steps,
        success=None if success is None else bool(success), truncated=not terminated,
    )  # fmt: skip


def film(
    env: Any, policy: Any, seed: int, index: int, path: Path,
    on_step: Callable[[], None] = lambda: None,
) -> ReturnRecord:  # fmt: skip
    """`follow`, with a film of it. Raises UserError for an environment without pictures."""
    from rearrange.eval.film.env_film import film_env

    fps = env.metadata.get("render_fps") or _USUAL_FPS
    with film_env(env, path, max(1, round(fps))) as add:

        def watch() -> None:
            add()
            on_step()

        return follow(env, policy, seed, index, watch)


def summarise(records: list[ReturnRecord]) -> dict[str, Any]:
    """The part of summary.json that follows from the episodes alone.

    Means have Student's interval over episodes, rates Wilson's.
    """
    summary: dict[str, Any] = {}
    for name, key in (("episode_return", "total_return"), ("episode_steps", "steps")):
        values = [float(getattr(record, key)) for record in records]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        summary[name] = mean_over_seeds(values) | {
            "std": spread, "min": min(values), "max": max(values)
        }  # fmt: skip
    known = [record.success for record in records if record.success is not None]
    summary["success"] = None
    if len(known) == len(records):
        low, high = wilson(sum(known), len(known))
        summary["success"] = {"mean": sum(known) / len(known), "low": low, "high": high}
    summary["truncated"] = sum(record.truncated for record in records)
    summary["control_steps"] = sum(record.steps for record in records)
    return summary


def table(summary: dict[str, Any]) -> str:
    """What the command prints at its end."""
    lines = [
        f"{summary['env']}: {summary['run']} after {summary['trained_steps']} steps, "
        f"{summary['num_episodes']} episodes, seed {summary['seed']}",
        "",
        f"{'':<10}{'mean':>10}   {'95% interval':<22}{'std':>10}{'min':>10}{'max':>10}",
    ]
    for label, name in (("return", "episode_return"), ("steps", "episode_steps")):
        row = summary[name]
        numbers = "".join(f"{_short(row[key]):>10}" for key in ("std", "min", "max"))
        lines.append(f"{label:<10}{_short(row['mean']):>10}   {_interval(row):<22}{numbers}")
    if (rate := summary["success"]) is not None:
        percents = [f"{100 * rate[key]:.1f}%" for key in ("mean", "low", "high")]
        lines.append(f"{'success':<10}{percents[0]:>10}   {percents[1]} to {percents[2]}")
    lines += ["", f"{summary['truncated']} of {summary['num_episodes']} cut off by a limit of time"]
    return "\n".join(lines)


def _interval(row: dict[str, Any]) -> str:
    return "none" if row["low"] is None else f"{_short(row['low'])} to {_short(row['high'])}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _parsed(line: str) -> ReturnRecord | None:
    """The record of a line; None if it is none, or not whole."""
    kinds = {"index": int, "seed": int, "total_return": float, "steps": int,
             "success": (bool, type(None)), "truncated": bool}  # fmt: skip
    with suppress(ValueError):
        values = strict_json(line)
        if isinstance(values, dict) and set(values) == set(kinds):
            is_right = all(isinstance(values[name], kind) for name, kind in kinds.items())
            if is_right and values["index"] >= 0:
                return ReturnRecord(**values)
    return None
