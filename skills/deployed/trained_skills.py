"""Trained skills by name: those of the package, or those in a folder of your own.

skills/trained/pick.safetensors    of the package
DIR/pick.safetensors               a skill file, or
DIR/pick/                          a training run's folder
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rearrange.errors import UserError
from rearrange.skills.definition import SKILLS
from rearrange.system.files import file_digest, user_path

FOLDER = Path(__file__).with_name("trained")
FIXED_BASE = "_fixed_base"
"""Suffix of skills trained with action_space=stationary."""
SUFFIX = ".safetensors"


def shipped_skills() -> list[str]:
    """The skills that come with the package."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def find_skill_path(name: str, folder: str | Path | None = None) -> Path | None:
    """A skill's file or run folder in `folder`, None: the package's; None if it is not there."""
    place = FOLDER if folder is None else Path(folder)
    for path in (place / f"{name}{SUFFIX}", place / name):
        if path.exists():
            return path
    return None


def weights_path(text: str) -> Path:
    """A skill file or a run's folder as a user writes it, or else the package's skill of that name.

    Raises UserError for a name that is neither.
    """
    path = user_path(text)
    if path.exists() or len(path.parts) != 1 or path.suffix:
        return path
    known = shipped_skills()
    if text not in known:
        names = ", ".join(known)
        raise UserError(
            f"there is no skill file {text}, and no skill of the package has this name: {names}"
        )
    return FOLDER / f"{text}{SUFFIX}"


def weights_digest(path: Path) -> str:
    """SHA-256 of a skill file; for a run's folder, of its newest checkpoint's manifest, which has
    checksums of the rest. Raises UserError if it cannot be read."""
    newest = max(path.glob("checkpoints/*.json"), default=path)
    if newest.is_dir():
        raise UserError(f"{path} has no checkpoint: give the folder of a training run")
    return file_digest(newest)


def check_weights_unchanged(paths: Mapping[str, str], digests: Mapping[str, str]) -> None:
    """Raises UserError if a skill is not what it was when its evaluation began.

    To be called once it has been read: a worker that replaces a lost one reads it hours later.

    Args:
        paths: by skill, as `digests` are.
    """
    for name, digest in digests.items():
        if weights_digest(Path(paths[name])) != digest:
            raise UserError(
                f"{name} has changed since this evaluation began: {paths[name]} must stay as it "
                "is; of a running training name one checkpoint, RUN/checkpoints/NUMBER.json"
            )


def skill_path(name: str, folder: str | Path | None = None) -> Path:
    """As `find_skill_path`. Raises UserError for a missing skill, saying how to get it, and for an
    unknown one."""
    path = find_skill_path(name, folder)
    if path is not None:
        return path
    if folder is not None and not Path(folder).is_dir():
        raise UserError(f"there is no folder {folder} to take trained skills from")
    words = _typed(name.removesuffix(FIXED_BASE))
    if name.endswith(FIXED_BASE):
        words = f"{words} action_space=stationary"
    if folder is None:
        raise UserError(
            f"skill {name} does not come with the package (there is no {FOLDER / name}{SUFFIX}); "
            f"`rearrange train-skill {words} run_dir=runs/{name}` trains it for skills=runs"
        )
    raise UserError(
        f"skill {name} is missing in {folder}, which has neither {name}{SUFFIX} nor a run's folder "
        f"{name}; `rearrange train-skill {words} run_dir={Path(folder) / name}` trains it"
    )


def _typed(name: str) -> str:
    """A skill as it is typed: one of a user's own with its module."""
    program = SKILLS[name].program
    module = program.partition(":")[0] if isinstance(program, str) else program.__module__
    return name if module.partition(".")[0] in ("", "rearrange") else f"{module}:{name}"
