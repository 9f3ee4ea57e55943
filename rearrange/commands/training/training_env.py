"""The environment of a training, and the folder of its run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rearrange.configs.training import AnyRunCfg, RunCfg, TrainSkillCfg
from rearrange.errors import UserError
from rearrange.skills.deployed.skill_files import find_weights, weights_checksum
from rearrange.skills.deployed.trained_skills import weights_path
from rearrange.skills.network.policy import NETWORKS
from rearrange.system.checked_json import is_object, strict_json
from rearrange.system.files import user_path, write_whole_file
from rearrange.system.folder_lock import LOCK_FILE
from rearrange.system.outputs import atomic_write_json
from rearrange.tasks.gym_factory import find_id
from rearrange.ver.bridge import habitat
from rearrange.ver.bridge.external_python import ExternalEnvs, find_python
from rearrange.ver.run.metrics import CHECKPOINTS_FOLDER, METRICS_FILE, SUMMARY_FILE
from rearrange.ver.workers.pool import PoolCfg

BEGINNING_FILE = "warm_start.json"
TAIL_BYTES = 65536  # of metrics.jsonl, whose lines have some 2 kB


class TrainingEnv(NamedTuple):
    """What is trained in."""

    env_id: str
    kwargs: dict[str, Any]
    short_name: str  # in the name of the run's folder
    remote_envs: ExternalEnvs | None = None  # the environments of another Python

    @property
    def is_elsewhere(self) -> bool:
        """Whether the id is one that only another Python knows."""
        envs = self.remote_envs
        return envs is not None and envs.content["env_id"] == self.env_id

    @property
    def known_id(self) -> str:
        """The id as registered, without its module; another Python's as it was given."""
        return self.env_id if self.is_elsewhere else find_id(self.env_id)


def named_for_others(training_env: TrainingEnv, network: str) -> str:
    """The id, with the module that a process has to import to know it or the policy's network."""
    env_id, entry = training_env.env_id, NETWORKS[network]
    module = getattr(entry, "__module__", "")
    # Of a class that its own module adds; whose module another entry is cannot be told.
    is_known = module != "__main__" and getattr(sys.modules.get(module), network, None) is entry
    is_ours = module.partition(".")[0] == "rearrange"
    return env_id if ":" in env_id or is_ours or not is_known else f"{module}:{env_id}"


def training_env_of(settings: AnyRunCfg) -> TrainingEnv:
    """The environment, and what it is made with."""
    if not isinstance(settings, TrainSkillCfg):
        short_name = settings.env.rpartition(":")[2].rpartition("/")[2]
        return TrainingEnv(
            settings.env, settings.env_kwargs, short_name,
            remote_environments(settings.env, settings.env_kwargs, settings.workers),
        )  # fmt: skip
    kwargs = {
        "camera_size": settings.camera_size or settings.policy.encoder.image_size,
        "action_space": settings.action_space,
        "observation_delay": settings.observation_delay,
    }
    kwargs |= settings.env_kwargs
    remote_envs = None
    if settings.backend == "habitat":
        from rearrange.commands.training.habitat_envs import habitat_envs

        remote_envs = habitat_envs(settings, kwargs)
    return TrainingEnv(settings.skill.env, kwargs, settings.skill.name, remote_envs)


def remote_environments(
    env_id: str, kwargs: dict[str, Any], workers: PoolCfg
) -> ExternalEnvs | None:
    """Those of the Python that `workers` names.

    Raises UserError if it is not there, or none is named for an environment that needs one.
    """
    if workers.python is None:
        if env_id.startswith(habitat.PREFIX):  # its gym is too old for ours
            raise UserError(
                f"env '{env_id}' runs in a Python of its own: workers.python=FOLDER of one with "
                f"{habitat.lacking({})}"
            )
        return None
    return ExternalEnvs(find_python(workers.python), env_id, kwargs, workers.start_timeout_s)


def run_folder(settings: RunCfg, training_env: TrainingEnv) -> Path:
    """`run_dir`, or else a name from what is trained, so that the same command finds it again."""
    if settings.run_dir is not None:
        return user_path(settings.run_dir)
    return Path("runs") / f"{training_env.short_name}-{settings.mode}-{settings.seed}"


def stages_folder(preset: str, seed: int) -> Path:
    """Where `train-skills` works unless told otherwise: SKILL/STAGE within."""
    return Path("runs") / f"skills-{preset}-{seed}"


RUN_PARTS = dict.fromkeys((CHECKPOINTS_FOLDER, "tensorboard"), Path.is_dir) | dict.fromkeys(
    ("config.yaml", BEGINNING_FILE, METRICS_FILE, SUMMARY_FILE), Path.is_file
)


def check_run_folder(run_dir: Path, resume: str) -> None:
    """Raises UserError if the folder cannot be one, or holds something that would be mixed in."""
    try:
        is_used = run_dir.exists() and any(file.name != LOCK_FILE for file in run_dir.iterdir())
    except NotADirectoryError as error:  # also looked at without holding it, see `train.run`
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
            f"{run_dir} is not empty: resume=auto continues the run in it, another run_dir "
            "starts a new one"
        )


def note_beginning(run_dir: Path, warm_start: str | None) -> None:
    """Writes which weights a run begins with, unless it has begun."""
    if _has_begun(run_dir):
        return
    noted = {"warm_start": warm_start, "checksum": beginning_checksum(warm_start)}
    atomic_write_json(run_dir / BEGINNING_FILE, noted)


def beginning_checksum(warm_start: str | None) -> str | None:
    """Of the weights that a run begins with; None: of fresh ones."""
    if warm_start is None:
        return None
    return weights_checksum(find_weights(weights_path(warm_start)).weights)


def check_beginning(run_dir: Path, warm_start: str | None) -> None:
    """Raises UserError if a run that goes on is given other weights than it began with.

    What it began with may have changed since or be gone, and need not be named again.
    """
    known = beginning(run_dir)
    if known is None or warm_start in (None, known.get("warm_start")):
        return
    if beginning_checksum(warm_start) != known.get("checksum"):
        began = known.get("warm_start") or "fresh weights"
        raise UserError(
            f"{run_dir} has begun with {began} and would go on from there: leave out warm_start="
            f"{warm_start}, or choose another run_dir"
        )


def beginning(run_dir: Path) -> dict[str, Any] | None:
    """What a run began with, as `note_beginning` wrote it; None if it has not begun, or did so
    before this was noted."""
    if not _has_begun(run_dir):
        return None
    with suppress(OSError, ValueError):
        found = strict_json((run_dir / BEGINNING_FILE).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else None
    return None


def _has_begun(run_dir: Path) -> bool:
    return any((run_dir / CHECKPOINTS_FOLDER).glob("*.json"))


def saved_steps(run_dir: Path) -> int:
    """Steps of a run's newest checkpoint; 0 if it has none."""
    manifests = (run_dir / CHECKPOINTS_FOLDER).glob("*.json")
    return max((int(path.stem) for path in manifests if path.stem.isdecimal()), default=0)


def working_seconds(run_dir: Path) -> float:
    """Seconds that a run has trained for, by the usual pace of its newest updates if that is less
    than the time it has stood: the process may have been stopped for hours, which says nothing of
    what is left. 0 if it has not begun."""
    lines = [*_lines_from_newest(run_dir)][::-1]
    seconds, paces = 0.0, list[float]()
    with suppress(KeyError, TypeError):
        seconds = float(lines[-1]["time_s"]) if lines else 0.0
        for old, new in pairwise(lines):
            if new["step"] > old["step"]:
                paces.append((new["time_s"] - old["time_s"]) / (new["step"] - old["step"]))
        if len(paces) > 1:
            seconds = min(seconds, lines[-1]["step"] * median(paces))
    return seconds


def newest_metrics(run_dir: Path) -> dict[str, Any]:
    """The last whole line of a run's metrics; empty if there is none yet."""
    return next(_lines_from_newest(run_dir), {})


def _lines_from_newest(run_dir: Path) -> Iterator[dict[str, Any]]:
    """The last whole lines of a run's metrics, without those that cannot be read."""
    texts: list[bytes] = []
    with suppress(OSError), open(run_dir / METRICS_FILE, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        texts = file.read().split(b"\n")[:-1]
    for text in reversed(texts):
        with suppress(ValueError):
            line = strict_json(text.decode())
            if is_object(line):
                yield line


def save_config(settings: RunCfg, training_env: TrainingEnv, run_dir: Path) -> None:
    """Writes config.yaml: all settings, with `env` for skills too."""
    from omegaconf import OmegaConf

    given, settings.given = settings.given, None  # how it came about
    values = OmegaConf.to_container(OmegaConf.structured(settings))
    settings.given = given
    assert isinstance(values, dict)
    values = {"env": training_env.env_id} | values | {"run_dir": str(run_dir)}
    del values["given"]
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        write_whole_file(run_dir / "config.yaml", OmegaConf.to_yaml(values).encode())
    except OSError as error:
        raise UserError(f"cannot write into run_dir {run_dir}: {error.strerror}") from error
