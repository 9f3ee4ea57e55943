"""What was driven becomes a demonstration, one more of a data set as `rearrange collect` makes it.

    actions, motors' leads --> the same episode again, with all sensors --> a piece --> data set

Done again bit for bit, or it is not kept. The pieces stay in the folder, so that the data set grows
with every one; of an episode that is driven again the newest stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.eval.demonstrations.collecting import PIECES, assemble
from rearrange.eval.demonstrations.demonstration import Demonstration, world_digest
from rearrange.eval.demonstrations.formats import (
    FORMATS,
    SUMMARY,
    check_packages,
    read_summary,
)
from rearrange.eval.demonstrations.recorder import RecordingEnv, facts_of
from rearrange.eval.episode_store import SETTINGS_FILE
from rearrange.eval.missing_episodes import versions
from rearrange.eval.runner import EpisodeRecord
from rearrange.eval.view.stage import Driven
from rearrange.planner.home.descriptions import names_of, running_step
from rearrange.system.checked_json import strict_json
from rearrange.system.files import read_whole_file, remove_unfinished
from rearrange.system.folder_lock import lock_folder
from rearrange.system.machine import commit, machine
from rearrange.system.outputs import atomic_write_json, prepare_folder
from rearrange.tasks.episodes.files import read_episodes, write_episodes
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.episode import EpisodeSpec

NOTE_LIMIT = 2**16  # bytes; ours have a hundred
NOTED = {"agent": str, "steps": int, "success": bool}
SAME = ("task", "split", "homes", "format")  # of all demonstrations in a folder


class _Log:
    """Says what the drivers said when they drove."""

    status = ""


@dataclass(frozen=True)
class Kept:
    """A demonstration that was kept."""

    folder: Path
    number: int
    """How many the data set has now."""
    steps: int


def default_folder(task: str, split: str, form: str) -> Path:
    """Where a data set goes if nobody says where."""
    return Path("outputs/demonstrations") / f"{task}-you-{split}-{form}-v0".replace(":", "-")


def keep(driven: Driven, world: Any, folder: Path, form: str) -> Kept:
    """Adds what was driven to the data set in a folder.

    Args:
        world: the environment that was driven, as it is now.

    Raises UserError for an episode without a step, packages that are missing, a folder that holds
    something else, and a world that does not come again.
    """
    check_packages(form)
    if not driven.actions:
        raise UserError("nothing has been driven yet")
    made_with = {
        "task": driven.episode.task,
        "split": driven.episode.split,
        "seed": driven.episode.seed,
        "homes": world.init_kwargs["homes"],
        "max_episode_steps": world.init_kwargs["max_episode_steps"],
    }
    demonstration = _again(driven, made_with)
    if int(demonstration.worlds[-1]) != world_digest(world.sim):
        raise UserError("what was driven did not come again bit for bit: it is not kept")
    about = {name: made_with.get(name, form) for name in SAME}
    with lock_folder(folder, "output"):
        alike = about | {"sensors": sorted(demonstration.observations)}
        _check_ours(folder, alike)
        pieces = prepare_folder(folder / PIECES)
        remove_unfinished(pieces)
        specs = _specs(pieces)
        is_new = driven.episode not in specs  # a data set has each episode once: the newest of it
        place = len(specs) if is_new else specs.index(driven.episode)
        others = (number for number in range(len(specs)) if number != place)
        notes = [_read_note(_note(pieces, number)) for number in others]
        specs += [driven.episode] * is_new
        write_episodes(_spec(pieces, place), [driven.episode])
        FORMATS[form].write_piece(demonstration, _piece(pieces, place, form))
        note = alike | {
            "steps": len(demonstration),
            "success": bool(demonstration.success[-1]),
            "agent": demonstration.facts["agent"],
        }
        atomic_write_json(_note(pieces, place), note)  # last: with it the piece is there
        notes.insert(place, note)
        (folder / SUMMARY).unlink(missing_ok=True)
        whole = [_piece(pieces, number, form) for number in range(len(specs))]
        assemble(folder, form, whole, specs)
        atomic_write_json(folder / SUMMARY, _summary(about, notes))
    return Kept(folder, len(specs), len(demonstration))


def _again(driven: Driven, made_with: dict[str, Any]) -> Demonstration:
    """The same episode once more, with the head camera, recorded."""
    log = _Log()
    env = RecordingEnv(make_env(**made_with, depth=True, handle_sensors=True), log)  # pyrefly: ignore[bad-argument-type]
    env.reset(options={"episode": driven.episode})
    sim, info, way = env.world.sim, {}, 0.0
    place = np.array(sim.base_pose[:2])
    steps = zip(driven.actions, driven.motor_leads, driven.statuses, strict=True)
    for action, lead, status in steps:
        sim.motor_lead, log.status = lead or None, status
        info = env.step(action)[4]
        now = np.array(sim.base_pose[:2])
        way, place = way + float(np.linalg.norm(now - place)), now
    success = bool(info["success"])
    record = EpisodeRecord(
        index=driven.episode.index,
        scene=driven.episode.scene.layout_id,
        success=success,
        stages={name: bool(reached) for name, reached in info["stages"].items()},
        failure=None if success else str(info["failure"] or "stopped too early"),
        steps=len(driven.actions),
        force=round(float(info["force_accum"]), 3),
        path_length=round(way, 4),
        targets={name: list(names) for name, names in names_of(driven.episode).items()},
        last_step="" if success else running_step(driven.episode, log.status),
    )
    return env.demonstration(facts_of(env, "+".join(driven.drivers), record))


def _check_ours(folder: Path, about: dict[str, Any]) -> None:
    """Raises UserError for a folder that holds others."""
    inside = {path.name for path in folder.iterdir()} - {".lock"} if folder.is_dir() else set()
    if inside and PIECES not in inside:
        raise UserError(f"{folder} holds other things: choose another output")
    if SETTINGS_FILE in inside:
        raise UserError(f"{folder} holds what `rearrange collect` has begun: choose another output")
    before = dict[str, Any]()
    if SUMMARY in inside:
        before |= {name: read_summary(folder).get(name) for name in SAME}
    first = _note(folder / PIECES, 0)
    if first.is_file():  # without a summary, if the last demonstration was cut off
        before |= _read_note(first)
    for name, now in about.items():
        if before.get(name, now) != now:
            raise UserError(
                f"{folder} holds demonstrations of {name}={before[name]}, got {now}: choose "
                "another output"
            )


def _specs(pieces: Path) -> list[EpisodeSpec]:
    """The episodes of all pieces that are there."""
    specs = []
    while _note(pieces, len(specs)).is_file():
        specs.append(read_episodes(_spec(pieces, len(specs)))[0])
    return specs


def _summary(about: dict[str, Any], notes: list[dict[str, Any]]) -> dict[str, Any]:
    return about | {
        "agents": [note["agent"] for note in notes],
        "num_episodes": len(notes),
        "num_successes": sum(bool(note["success"]) for note in notes),
        "num_steps": sum(int(note["steps"]) for note in notes),
        "commit": commit(),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
    }


def _read_note(path: Path) -> dict[str, Any]:
    try:
        note = strict_json(read_whole_file(path, NOTE_LIMIT).decode())
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from error
    for name, kind in NOTED.items():
        if not isinstance(note, dict) or type(note.get(name)) is not kind:
            raise UserError(f"{path} is damaged: it must have {name}, a {kind.__name__}")
    return note


def _piece(pieces: Path, number: int, form: str) -> Path:
    return pieces / f"{number:06d}{FORMATS[form].suffix}"


def _spec(pieces: Path, number: int) -> Path:
    return pieces / f"{number:06d}.json.gz"


def _note(pieces: Path, number: int) -> Path:
    return pieces / f"{number:06d}.json"
