"""`rearrange train` and `rearrange train-skill`: joins environment, policy and trainer.

words -> settings -- the environment's spaces --> what suits them -> Trainer -> summary.json

A skill is learned by VER, by imitating a teacher, or by the one after the other (`method`).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rearrange.cluster.scheme import SPREAD, is_placed
from rearrange.cluster.spread import run_spread
from rearrange.commands.settings import load
from rearrange.configs.recipes import RECIPE_PRESETS, SUITING, first_actions, recipe
from rearrange.configs.training import RunCfg, TrainSkillCfg
from rearrange.errors import MACHINE_ERRORS, UserError
from rearrange.skills.deployed.skill_files import find_weights
from rearrange.skills.network.growing import with_senses
from rearrange.skills.network.policy import SkillPolicy, build_policy
from rearrange.skills.teacher.compiling import compile_home, compile_teacher
from rearrange.skills.teacher.guided import LABELS, make_guided
from rearrange.system.console import complain, say
from rearrange.system.files import write_whole_file
from rearrange.system.folder_lock import LOCK_FILE, FolderLost, HeldFolder, hold_folder
from rearrange.system.stop_signals import EXIT_CODES
from rearrange.tasks.gym_factory import find_id, make_gym, read_spaces, registered_id
from rearrange.tasks.rules.names import TASKS
from rearrange.ver.ranks.distributed import Ranks, RanksLost, joined
from rearrange.ver.rollout.collector import NonFinite
from rearrange.ver.run.metrics import METRICS_FILE, SUMMARY_FILE
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.imitation import ImitationLearner
from rearrange.ver.update.learner import Learner
from rearrange.ver.workers.first_step import EnvironmentFailed
from rearrange.ver.workers.pool import TooManyRestarts
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec, action_spec, observation_spec

# How a network is computed or begins and not what it is: may change when a training goes on.
FREE_POLICY_SETTINGS = ("name", "precision", "compile", "initial_means")


class Subject(NamedTuple):
    """What is trained in."""

    env_id: str
    kwargs: dict[str, Any]
    short_name: str  # in the name of the run's folder


def run(settings: RunCfg) -> int:
    """Trains, in stages if the method has several; the exit code. As one of torchrun's ranks too.

    Raises UserError, before any worker starts, for settings that do not fit the environment, the
    machine or what is in the run's folder already.
    """
    if settings.scheme.name in SPREAD and not is_placed(os.environ):
        _, run_dir = checked(settings)
        check_run_folder(run_dir, settings.resume)
        return run_spread([verb_of(settings), *settings.given, "resume=auto"], settings.scheme)
    with joined(settings.device, settings.ranks_timeout_s) as ranks:
        if getattr(settings, "method", "ver") == "imitation_ver":
            return train_in_stages(settings, ranks)
        return train(settings, ranks)


def train_in_stages(settings: TrainSkillCfg, ranks: Ranks) -> int:
    """Imitation, then VER from there, both without pictures; with `eyes` VER with them after that.

    Without pictures a step costs a fraction, and what can be learned so is learned first. The last
    stage's folder is the run's own, those before it lie in it.
    """
    run_dir = run_folder(settings, what_to_train(settings))
    with held(run_dir, ranks) as folder:
        ranks.on_first(lambda: check_run_folder(run_dir, settings.resume))
        return _train_stages(settings, ranks, run_dir, folder)


def _train_stages(
    settings: TrainSkillCfg, ranks: Ranks, run_dir: Path, held_folder: HeldFolder | None
) -> int:
    free = ("method=", "total_steps=", "run_dir=", "resume=")
    given = [word for word in settings.given if not word.startswith(free)]
    stages = [(run_dir / "imitation", settings.imitation.total_steps, ["method=imitation"])]
    if settings.eyes:
        words = ["method=ver", f"warm_start={run_dir / 'imitation'}"]
        stages.append((run_dir / "blind", settings.blind_steps, words))
    for folder, num_steps, own in stages:
        words = [*own, "env_kwargs.depth=false", f"run_dir={folder}", "resume=auto"]
        if num_steps:
            words.append(f"total_steps={num_steps}")
        if code := train(load("train-skill", [*given, *words]), ranks):
            return code
    last = ["resume=auto", f"run_dir={run_dir}", f"warm_start={stages[-1][0]}"]
    if not settings.eyes:
        last.append("env_kwargs.depth=false")
    cfg = load("train-skill", [*settings.given, *last])
    return _train_in(run_dir, cfg, ranks, held_folder)


def train(settings: RunCfg, ranks: Ranks) -> int:
    """One stage: trains, prints a short table and returns the exit code. Raises as `run`."""
    run_dir = run_folder(settings, what_to_train(settings))
    with held(run_dir, ranks) as folder:
        return _train_in(run_dir, settings, ranks, folder)


@contextmanager
def held(run_dir: Path, ranks: Ranks) -> Iterator[HeldFolder | None]:
    """Rank 0 holds the run's folder, so that no other training writes there. Raises UserError."""
    found: list[HeldFolder | None] = [None]

    def hold() -> None:
        found[0] = stack.enter_context(hold_folder(run_dir))

    with ExitStack() as stack:
        ranks.on_first(hold)
        yield found[0]


def _train_in(run_dir: Path, settings: RunCfg, ranks: Ranks, folder: HeldFolder | None) -> int:
    """Trains in a folder that rank 0 holds."""
    subject = what_to_train(settings)
    settings = with_suiting(settings, subject)
    ranks.on_first(lambda: check_run_folder(run_dir, settings.resume))
    identity = {
        "env": subject.env_id,
        "env_kwargs": subject.kwargs,
        "policy": _without(asdict(settings.policy), FREE_POLICY_SETTINGS),
    }
    num_envs = settings.num_envs * ranks.world_size
    stream = {"env_id": subject.env_id, "num_envs": num_envs, "kwargs": subject.kwargs}
    make_env, learner = partial(make_gym, **stream), Learner
    is_imitation = getattr(settings, "method", "ver") == "imitation"
    if is_imitation:
        check_imitable(settings)
        identity["method"] = "imitation"
        make_env = partial(make_guided, **stream, cfg=settings.guide)
        learner = partial(ImitationLearner, imitation=settings.imitation)
    is_home = find_id(subject.env_id) in TASKS.values()
    try:
        trainer = Trainer(
            make_env,
            lambda observation, action: first_policy(settings, subject, observation, action),
            TrainerCfg(**{f.name: getattr(settings, f.name) for f in fields(TrainerCfg)}),
            run_dir,
            env_name=subject.env_id,
            identity=identity,
            ranks=ranks,
            preload=(_preload(is_home, is_imitation),),
            learner_factory=learner,
            check_folder=folder.check if folder is not None else lambda: None,
        )
    except EnvironmentFailed as error:
        return _unexpected(error)
    except ValueError as error:  # sizes that only meet here, such as a picture too small
        raise UserError(str(error)) from error
    ranks.on_first(lambda: save_config(settings, subject, run_dir))
    if is_home:
        compile_home(subject.env_id, subject.kwargs)
    if is_imitation:
        compile_teacher(subject.env_id)
    try:
        summary = trainer.run()
    except (NonFinite, TooManyRestarts, RanksLost, FolderLost) as error:
        complain(error)
        return 1
    except (Exception, SystemExit) as error:  # the work is saved
        if isinstance(error, UserError) or getattr(error, "errno", None) in MACHINE_ERRORS:
            raise
        return _unexpected(error)
    stopped_by = summary["stopped_by"]
    code = EXIT_CODES[signal.Signals[stopped_by]] if stopped_by else 0
    if not ranks.is_first:
        return code
    say(table(summary, run_dir))
    if stopped_by is not None:
        with suppress(OSError):
            print(f"stopped by {stopped_by}: saved; resume=auto goes on", file=sys.stderr)
    return code


def _unexpected(error: BaseException) -> int:
    """Shows where it happened, in whoever's code, and in one line what; the exit code."""
    with suppress(OSError):
        traceback.print_exception(error)
    if isinstance(error, EnvironmentFailed):
        complain(f"{error}: see above where")
    else:
        complain(f"{type(error).__name__}: {error} (see above where); resume=auto goes on")
    return 1


def checked(settings: RunCfg) -> tuple[RunCfg, Path]:
    """The settings with what suits the environment, and the run's folder.

    Raises UserError for what can be found out without a trainer.
    """
    subject = what_to_train(settings)
    if getattr(settings, "method", "ver") != "ver":
        check_imitable(settings)
    return with_suiting(settings, subject), run_folder(settings, subject)


def verb_of(settings: RunCfg) -> str:
    return "train-skill" if isinstance(settings, TrainSkillCfg) else "train"


def _preload(is_home: bool, is_imitation: bool) -> str:
    if is_imitation:
        return "rearrange.skills.teacher.guided"
    return "rearrange.tasks.env" if is_home else "rearrange.tasks.gym_factory"


def check_imitable(settings: RunCfg) -> None:
    """Raises UserError where the oracle cannot be imitated."""
    if settings.action_space != "full":
        raise UserError(
            f"the oracle moves the whole robot: method={settings.method} needs action_space=full, "
            f"got {settings.action_space}"
        )


def first_policy(
    settings: RunCfg, subject: Subject, observation: ObservationSpec, action: ActionSpec
) -> SkillPolicy:
    """The policy that training begins with: of fresh weights, or those of `warm_start`.

    The teacher's labels, which come as observations, are not for the policy's eyes.
    Raises UserError if the weights are of another environment or network.
    """
    seen = {name: spec for name, spec in observation.items() if name not in LABELS}
    policy = build_policy(seen, action, settings.policy)
    if settings.warm_start is None:
        return policy
    source = Path(settings.warm_start).expanduser()
    trained_in, weights = find_weights(source)
    if registered_id(trained_in) != find_id(subject.env_id):
        raise UserError(f"{source} was trained in {trained_in}, not in {subject.env_id}")
    weights = {name: tensor.float() for name, tensor in weights.items()}
    own = policy.state_dict()
    weights = with_senses(weights, own, policy.embedding)
    other_shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    own_shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    if own_shapes != other_shapes:
        names = own_shapes | other_shapes
        name = min(n for n in names if own_shapes.get(n) != other_shapes.get(n))
        raise UserError(
            f"{source} holds another network: {name} is {other_shapes.get(name)} there and "
            f"{own_shapes.get(name)} here"
        )
    policy.load_state_dict(weights)
    return policy


def what_to_train(settings: RunCfg) -> Subject:
    """The environment, and what it is made with."""
    if not isinstance(settings, TrainSkillCfg):
        short_name = settings.env.rpartition(":")[2].rpartition("/")[2]
        return Subject(settings.env, settings.env_kwargs, short_name)
    kwargs = {
        "camera_size": settings.camera_size or settings.policy.encoder.image_size,
        "action_space": settings.action_space,
        "observation_delay": settings.observation_delay,
    }
    if settings.method != "ver" or settings.warm_start is not None:
        kwargs |= settings.skill.env_kwargs
    elif settings.policy.name in RECIPE_PRESETS:
        kwargs |= settings.skill.fresh_kwargs
    return Subject(settings.skill.env, kwargs | settings.env_kwargs, settings.skill.name)


def with_suiting(settings: RunCfg, subject: Subject) -> RunCfg:
    """The settings with what suits where nothing was given.

    Raises UserError for spaces that the trainer cannot take.
    """
    words = suiting_words(settings, subject)
    # policy=auto has done its work; the other words stand behind ours, and the last one counts
    given = [word for word in settings.given if word != "policy=auto"]
    return load(verb_of(settings), [*words, *given])


def suiting_words(settings: RunCfg, subject: Subject) -> tuple[str, ...]:
    """What suits the environment's spaces, or the skill, and how fresh actions begin."""
    observation_space, action_space = read_spaces(subject.env_id, subject.kwargs)
    shapes = [spec.shape for spec in observation_spec(observation_space).values()]
    kind = action_spec(action_space).kind
    if any(len(shape) == 3 for shape in shapes):
        kind = "pictures"
    words = recipe(settings) if isinstance(settings, TrainSkillCfg) else SUITING[kind]
    if settings.warm_start is None and getattr(settings, "method", "ver") == "ver":
        slots = subject.kwargs.get("action_space", "full")
        words = (*first_actions(find_id(subject.env_id), slots), *words)
    return words


def run_folder(settings: RunCfg, subject: Subject) -> Path:
    """`run_dir`, or else a name from what is trained, so that the same words find it again."""
    if settings.run_dir is not None:
        return Path(settings.run_dir).expanduser()
    return Path("runs") / f"{subject.short_name}-{settings.mode}-{settings.seed}"


RUN_PARTS = dict.fromkeys(("checkpoints", "tensorboard"), Path.is_dir) | dict.fromkeys(
    ("config.yaml", METRICS_FILE, SUMMARY_FILE), Path.is_file
)


def check_run_folder(run_dir: Path, resume: str) -> None:
    """Raises UserError if the folder cannot be one, or holds something that would be mixed in."""
    try:
        is_used = run_dir.exists() and any(file.name != LOCK_FILE for file in run_dir.iterdir())
    except NotADirectoryError as error:  # also looked at without holding it, see `run`
        raise UserError(f"run_dir must be a folder, {run_dir} is a file") from error
    except OSError as error:
        raise UserError(f"cannot use run_dir {run_dir}: {error.strerror}") from error
    for name, is_right in RUN_PARTS.items():
        part = run_dir / name
        if os.path.lexists(part) and not is_right(part):  # a link that leads nowhere too
            kind = "a folder" if is_right is Path.is_dir else "a file"
            raise UserError(f"{part} must be {kind}: remove it, or choose another run_dir")
    if is_used and resume == "no":
        raise UserError(
            f"{run_dir} is not empty: resume=auto goes on with the run in it, another run_dir "
            "begins a new one"
        )


def save_config(settings: RunCfg, subject: Subject, run_dir: Path) -> None:
    """Writes config.yaml: all settings, with `env` for skills too."""
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(OmegaConf.structured(settings))
    values = {"env": subject.env_id} | values | {"run_dir": str(run_dir)}
    del values["given"]  # how it came about
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        write_whole_file(run_dir / "config.yaml", OmegaConf.to_yaml(values).encode())
    except OSError as error:
        raise UserError(f"cannot write into run_dir {run_dir}: {error.strerror}") from error


def table(summary: dict[str, Any], run_dir: Path) -> str:
    """The summary for people."""
    rate = summary["steps_per_second"]
    rows = {
        "env": f"{summary['env']}, mode {summary['mode']}",
        "steps": f"{summary['total_steps']} in {summary['wall_time_s']:.1f} s"
        + (f", {rate:.0f} a second" if rate else ""),
        "return": _mean(summary["episode_return"], "{:.4g}"),
        "success": _mean(summary["success"], "{:.1%}"),
        "best": _best(summary["best"]),
        "restarts": str(summary["restarts"]),
        "run_dir": str(run_dir),
    }
    return "\n".join(f"{name:<10}{value}" for name, value in rows.items())


def _without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """A nested dict without the keys of these names."""
    return {
        name: _without(value, names) if isinstance(value, dict) else value
        for name, value in values.items()
        if name not in names
    }


def _best(best: dict[str, Any] | None) -> str:
    if best is None:
        return "none: too few episodes"
    return f"{best['metric']} {best['value']:.4g} in {best['checkpoint']}"


def _mean(statistics: dict[str, float] | None, form: str) -> str:
    """Mean, spread and number of a figure over the last episodes."""
    if statistics is None:
        return "none"
    mean, std = form.format(statistics["mean"]), form.format(statistics["std"])
    return f"{mean} +- {std} (last {statistics['episodes']} episodes)"
