"""`rearrange train` and `train-skill`: connects environment, policy and trainer.

settings (`resolve.py`) -> environment, policy -> Trainer -> summary.json

A skill is learned by VER, by imitating a teacher, or by the one after the other (`method`).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from rearrange.cluster.local_ranks import leave_with_agent, tell_mistake
from rearrange.cluster.scheme import MISTAKE, SPREAD, is_placed
from rearrange.cluster.spread import run_spread
from rearrange.commands.overrides import last_override_per_key
from rearrange.commands.training.final_report import table, what_next
from rearrange.commands.training.forecast import TrainingStage, forecast
from rearrange.commands.training.resolve import CHAIN, chain
from rearrange.commands.training.training_env import (
    TrainingEnv,
    beginning,
    check_beginning,
    check_run_folder,
    newest_metrics,
    note_beginning,
    save_config,
    training_env_of,
)
from rearrange.commands.training.validation import validation_of
from rearrange.configs.training import AnyRunCfg, RunCfg, TrainSkillCfg
from rearrange.errors import MACHINE_ERRORS, UserError, one_line
from rearrange.skills.deployed.skill_files import find_weights
from rearrange.skills.deployed.trained_skills import weights_path
from rearrange.skills.network.policy import SkillPolicy, build_policy
from rearrange.skills.network.policy_cfg import policy_json
from rearrange.skills.network.precision import name_on
from rearrange.skills.network.warm_start import with_new_inputs
from rearrange.skills.teacher.compiling import compile_home, compile_teacher
from rearrange.skills.teacher.guided import LABELS, make_guided
from rearrange.system.console import print_error, print_line
from rearrange.system.folder_lock import FolderLock, FolderLockLost, lock_folder
from rearrange.system.machine import num_cores, pick_device
from rearrange.system.stop_signals import EXIT_CODES
from rearrange.tasks.env_options import recorded_options, to_record
from rearrange.tasks.gym_factory import make_gym, make_gym_vec, registered_id
from rearrange.tasks.rules.names import TASKS
from rearrange.ver.batched.start_cfg import BatchedCfg
from rearrange.ver.ranks.distributed import Ranks, RanksLost, joined
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import CHECKPOINTS_FOLDER, SUMMARY_FILE
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.algorithm import ALGORITHMS, Algorithm
from rearrange.ver.update.ppo_learner import STANDARD
from rearrange.ver.workers.first_step import EnvironmentFailure
from rearrange.ver.workers.pool import TooManyRestarts
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

# How a network is computed or begins and not what it is: may change when a training goes on.
FREE_POLICY_SETTINGS = ("name", "precision", "compile", "initial_means")


def run(settings: AnyRunCfg) -> int:
    """Trains, in stages if the method has several; the exit code. As one of torchrun's ranks too.

    Raises UserError, before any worker starts, for settings that do not fit the environment, the
    machine or what is in the run's folder already.
    """
    if settings.scheme.name in SPREAD and not is_placed(os.environ):
        check_run_folder(settings.folder, settings.resume)
        given = settings.given
        overrides = last_override_per_key([*given.overrides, "resume=auto"])
        return run_spread([given.verb, *overrides], settings.scheme)
    leave_with_agent()
    try:
        with joined(settings.device, settings.ranks_timeout_s) as ranks:
            if isinstance(settings, TrainSkillCfg) and settings.method == CHAIN:
                return train_in_stages(settings, ranks)
            return train(settings, ranks, StagePosition(all_stages=_stages_of(settings)))
    except UserError as error:
        if tell_mistake(error):
            return MISTAKE
        raise


def _stages_of(settings: AnyRunCfg) -> list[TrainingStage]:
    """Of a training of one stage."""
    if not isinstance(settings, TrainSkillCfg):
        return []
    return [TrainingStage(settings.stage or settings.method, settings)]


@dataclass(frozen=True)
class StagePosition:
    """Of a training among those that one command runs."""

    number: int = 1
    all_stages: Sequence[TrainingStage] = ()
    """All of them, for the forecast; empty where there is none."""

    @property
    def is_last(self) -> bool:
        return self.number >= len(self.all_stages)

    @property
    def label(self) -> str:
        """What the progress begins with."""
        if len(self.all_stages) < 2:
            return ""
        stage = self.all_stages[self.number - 1]
        return f"stage {self.number} of {len(self.all_stages)}, {stage.name}"


def train_in_stages(settings: TrainSkillCfg, ranks: Ranks) -> int:
    """Imitation, then VER, both without pictures; with `camera_stage`, then VER with them.

    The last stage's folder is the run's own, those before it lie in it.
    """
    run_dir = settings.folder
    with locked_run_dir(run_dir, ranks) as folder:
        ranks.on_first(lambda: check_run_folder(run_dir, settings.resume))
        *stages, last = chain(settings.given)
        names = [*(stage.folder.name for stage in stages), "ver"]
        parts = [part for part in (*stages, last) if isinstance(part, TrainSkillCfg)]
        all_stages = [TrainingStage(name, part) for name, part in zip(names, parts, strict=True)]
        ranks.on_first(lambda: _check_order(parts))
        for number, stage in enumerate(stages, start=1):
            if code := train(stage, ranks, StagePosition(number, all_stages)):
                return code
        return _train_in(run_dir, last, ranks, folder, StagePosition(len(all_stages), all_stages))


def _check_order(stages: Sequence[AnyRunCfg]) -> None:
    """Raises UserError if a stage would be trained on whose weights the next has begun with."""
    for stage, following in pairwise(stages):
        steps = newest_metrics(stage.folder).get("step", stage.total_steps)
        if beginning(following.folder) is not None and steps < stage.total_steps:
            raise UserError(
                f"{following.folder} has begun with the weights that {stage.folder} has after "
                f"{steps} steps, of {stage.total_steps} that are asked for now: ask for no more, "
                "or choose another run_dir"
            )


def folder_of_last_stage(settings: AnyRunCfg) -> Path:
    """The folder of the last stage that has ended or was stopped: the run's own, or one in it."""
    folders = [settings.folder]
    if isinstance(settings, TrainSkillCfg) and settings.method == CHAIN:
        folders = [stage.folder for stage in reversed(chain(settings.given))]
    return next((f for f in folders if (f / SUMMARY_FILE).is_file()), settings.folder)


def train(settings: AnyRunCfg, ranks: Ranks, position: StagePosition) -> int:
    """One stage: trains, prints a short table and returns the exit code. Raises as `run`."""
    run_dir = settings.folder
    with locked_run_dir(run_dir, ranks) as folder:
        return _train_in(run_dir, settings, ranks, folder, position)


@contextmanager
def locked_run_dir(run_dir: Path, ranks: Ranks) -> Iterator[FolderLock | None]:
    """Rank 0 holds the run's folder, so that no other training writes there. Raises UserError."""
    found: list[FolderLock | None] = [None]

    def hold() -> None:
        found[0] = stack.enter_context(lock_folder(run_dir))

    with ExitStack() as stack:
        ranks.on_first(hold)
        yield found[0]


def _train_in(
    run_dir: Path,
    settings: AnyRunCfg,
    ranks: Ranks,
    folder: FolderLock | None,
    position: StagePosition,
) -> int:
    """Trains in a folder that rank 0 holds."""
    training_env = training_env_of(settings)
    ranks.on_first(lambda: check_run_folder(run_dir, settings.resume))
    ranks.on_first(lambda: check_beginning(run_dir, settings.warm_start))
    is_home, is_imitation = training_env.known_id in TASKS.values(), _is_imitation(settings)
    try:
        trainer = _trainer(run_dir, settings, training_env, ranks, folder, position.label)
    except EnvironmentFailure as error:
        return _unexpected(error)
    except ValueError as error:  # sizes that only meet here, such as a picture too small
        raise UserError(str(error)) from error
    ranks.on_first(lambda: save_config(settings, training_env, run_dir))
    ranks.on_first(lambda: note_beginning(run_dir, settings.warm_start))
    if position.all_stages and position.number == 1 and ranks.is_first:
        with suppress(OSError):
            print(forecast(position.all_stages), file=sys.stderr, flush=True)
    if is_home:
        compile_home(training_env.env_id, training_env.kwargs)
    if is_imitation:
        compile_teacher(training_env.env_id)
    try:
        summary = trainer.run()
    except (NonFinite, TooManyRestarts, RanksLost, FolderLockLost) as error:
        print_error(error)
        return 1
    except torch.OutOfMemoryError as error:
        todo = "use smaller num_envs and num_steps, or more ppo.num_minibatches"
        print_error(f"the GPU's memory does not suffice: {todo} ({one_line(error)})")
        return 1
    except (Exception, SystemExit) as error:  # the work is saved
        if isinstance(error, UserError) or getattr(error, "errno", None) in MACHINE_ERRORS:
            raise
        return _unexpected(error)
    stopped_by = summary["stopped_by"]
    code = EXIT_CODES[signal.Signals[stopped_by]] if stopped_by else 0
    if not ranks.is_first:
        return code
    print_line(table(summary, run_dir))
    if stopped_by is not None:
        with suppress(OSError):
            print(f"stopped by {stopped_by}: saved; resume=auto goes on", file=sys.stderr)
    elif position.is_last:
        print_line(what_next(training_env, summary, run_dir, settings.policy.network))
    return code


def _trainer(
    run_dir: Path,
    settings: AnyRunCfg,
    training_env: TrainingEnv,
    ranks: Ranks,
    folder: FolderLock | None,
    label: str,
) -> Trainer:
    """Joins environments, policy and what learns. Raises as `Trainer`."""
    validation = validation_of(settings, training_env, run_dir)
    if validation is not None and not ranks.is_alone:
        raise UserError(
            f"validation.every needs a training of one process, got {ranks.world_size} ranks"
        )
    recorded = to_record(training_env.known_id, training_env.kwargs)
    is_home = training_env.known_id in TASKS.values()
    if is_home:
        recorded_options(training_env.known_id, recorded, "")  # what its readers refuse, at once
    identity = {
        "env": training_env.env_id,
        "env_kwargs": recorded,
        "policy": _without(policy_json(settings.policy), FREE_POLICY_SETTINGS),
    }
    num_envs = settings.num_envs * ranks.world_size
    stream = {"env_id": training_env.env_id, "num_envs": num_envs, "kwargs": training_env.kwargs}
    make_env = training_env.remote_envs or partial(make_gym, **stream)
    make_envs = partial(make_batched, settings.batched, training_env)
    make_algorithm = None
    if settings.algorithm != STANDARD:
        make_algorithm = partial(named_algorithm, settings.algorithm, settings.algorithm_kwargs)
        identity["algorithm"] = {settings.algorithm: settings.algorithm_kwargs}
    if isinstance(settings, TrainSkillCfg) and _is_imitation(settings):
        identity["method"] = "imitation"
        make_env = partial(make_guided, **stream, cfg=settings.guide)
        make_envs = None
        make_algorithm = partial(ALGORITHMS["imitation"], imitation=settings.imitation)
    return Trainer(
        make_env,
        lambda observation, action: first_policy(settings, training_env, observation, action),
        TrainerCfg(**{f.name: getattr(settings, f.name) for f in fields(TrainerCfg)}),
        run_dir,
        env_name=training_env.env_id,
        identity=identity,
        ranks=ranks,
        preload=(_preload(is_home, _is_imitation(settings)),),
        make_algorithm=make_algorithm,
        make_envs=make_envs,
        check_folder=folder.check if folder is not None else lambda: None,
        validation=validation,
        label=label,
    )


def _is_imitation(settings: AnyRunCfg) -> bool:
    return isinstance(settings, TrainSkillCfg) and settings.method == "imitation"


def _unexpected(error: BaseException) -> int:
    """Shows where it happened, in whoever's code, and in one line what; the exit code."""
    with suppress(OSError):
        traceback.print_exception(error)
    if isinstance(error, EnvironmentFailure):
        print_error(f"{error}: see above where")
    else:
        print_error(f"{type(error).__name__}: {error} (see above where); resume=auto goes on")
    return 1


def make_batched(cfg: BatchedCfg, training_env: TrainingEnv, num_envs: int) -> VectorEnv | None:
    """Environments of mode batched; None if Gymnasium knows no way to make them at once."""
    threads = cfg.threads_of(num_cores())
    return make_gym_vec(num_envs, training_env.env_id, training_env.kwargs, threads)


def named_algorithm(name: str, kwargs: dict[str, Any], *args: Any, **others: Any) -> Algorithm:
    """An algorithm with the user's own settings. Raises UserError for one that it does not have."""
    try:
        return ALGORITHMS[name](*args, **others, **kwargs)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise UserError(f"algorithm_kwargs of {name} do not fit: {error}") from error


def _preload(is_home: bool, is_imitation: bool) -> str:
    if is_imitation:
        return "rearrange.skills.teacher.guided"
    return "rearrange.tasks.env" if is_home else "rearrange.tasks.gym_factory"


def first_policy(
    settings: RunCfg, training_env: TrainingEnv, observation: ObservationSpec, action: ActionSpec
) -> SkillPolicy:
    """The policy that training begins with: of fresh weights, or those of `warm_start`.

    The teacher's labels, which come as observations, are not for the policy's eyes.
    Raises UserError if the weights are of another environment or network.
    """
    seen = {name: spec for name, spec in observation.items() if name not in LABELS}
    precision = name_on(settings.policy.precision, pick_device(settings.device).type)
    policy = build_policy(seen, action, replace(settings.policy, precision=precision))
    if settings.warm_start is None:
        return policy
    try:
        source = weights_path(settings.warm_start)
        found = find_weights(source)
    except UserError:
        checkpoints = settings.folder / CHECKPOINTS_FOLDER
        if settings.resume == "auto" and load_newest(checkpoints) is not None:
            return policy  # its own checkpoint takes their place
        raise
    is_elsewhere, trained_in = training_env.is_elsewhere, found.env_id
    if (trained_in if is_elsewhere else registered_id(trained_in)) != training_env.known_id:
        raise UserError(f"{source} was trained in {trained_in}, not in {training_env.env_id}")
    if found.activation not in (None, settings.policy.activation):
        raise UserError(
            f"{source} has layers of {found.activation}: they mean nothing with policy.activation="
            f"{settings.policy.activation}"
        )
    weights = {name: tensor.float() for name, tensor in found.weights.items()}
    own = policy.state_dict()
    if (embedding := getattr(policy, "embedding", None)) is not None:  # of our networks
        weights = with_new_inputs(weights, own, embedding)
    if settings.fresh_log_std:
        weights |= {name: own[name] for name in own if name.endswith("log_std")}
    other_shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    own_shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    if own_shapes != other_shapes:
        names = own_shapes | other_shapes
        name = min(n for n in names if own_shapes.get(n) != other_shapes.get(n))
        raise UserError(
            f"{source} has another network: {name} is {other_shapes.get(name)} there and "
            f"{own_shapes.get(name)} here"
        )
    policy.load_state_dict(weights)
    return policy


def _without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """A nested dict without the keys of these names."""
    return {
        name: _without(value, names) if isinstance(value, dict) else value
        for name, value in values.items()
        if name not in names
    }
