"""The results an evaluation has stored in its folder, so that the same command can resume it.

    settings.json     settings that determine the results, and the acting skills; written first
    episodes.jsonl    a line for each episode as it ends; finally in order of the index

An unfinished last line of a killed process is dropped, and its episode run again. So is a damaged
line before it, but not without a word.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

import rearrange
from rearrange.errors import UserError
from rearrange.eval.runner import EpisodeRecord, EpisodeRunnerCfg, weights_of_skills
from rearrange.planner.home.descriptions import Names
from rearrange.planner.home.domain import DOMAINS
from rearrange.planner.home.problems import DOMAIN_PATH
from rearrange.system.checked_json import is_object, quoted, strict_json
from rearrange.system.files import file_digest, read_whole_file
from rearrange.system.outputs import atomic_write_json, atomic_write_text, write_error
from rearrange.tasks.rules.definition import TASKS

SETTINGS_FILE, EPISODES_FILE = "settings.json", "episodes.jsonl"
_SHOWN = 5  # damaged lines that are named
SETTINGS_LIMIT, EPISODES_LIMIT = 2**20, 2**30  # bytes; ours have some kB, and 2 kB an episode
# Code that affects episodes; changes elsewhere (training, reports) do not.
_DECIDING = (
    "sim/**/*.py", "sim/**/*.json.gz", "tasks/**/*.py", "tasks/**/*.json.gz", "skills/**/*.py",
    "planner/**/*.py", "planner/**/*.pddl", "eval/runner.py", "eval/trained_env.py",
    "eval/habitat/**/*.py", "habitat/**/*.py", "registries.py", "ver/workers/spaces.py",
    "workloads/**/*.py",
)  # fmt: skip


def settings_of(runner: EpisodeRunnerCfg, versions: dict[str, str]) -> dict[str, Any]:
    """All settings that determine the episodes, except their number and the processor.

    Files count by content, not by path; that of a home by both, since its records name it. Raises
    UserError for a missing one.
    """
    chain = asdict(runner.chain)
    del chain["skills"]
    settings = {
        "task": runner.task,
        "agent": runner.agent,
        "split": runner.split,
        "seed": runner.seed,
        "homes": runner.homes,
        "episodes": runner.episodes and file_digest(Path(runner.episodes)),
        **chain,
        "trained_skills": runner.weights or weights_of_skills(runner),
        "versions": versions,
        "code": code_digest(),
        **own_modules((runner.task, runner.agent)),
        **own_domain(runner.task),
        **({"home_file": runner.home_file} if runner.home_file else {}),
        **runner.elsewhere(),
    }
    return json.loads(json.dumps(settings))  # as it will be read back: lists, not tuples


class EpisodeStore:
    """The records in a folder, by index, and methods to add to them.

    Args:
        parse: line -> record, or None for an invalid line; default: the home's episodes.

    Raises UserError if the folder holds results of other settings, or of more episodes.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, Any],
        num_episodes: int,
        parse: Callable[[str], Any] | None = None,
    ) -> None:
        self.records: dict[int, Any] = {}
        self.acting: list[dict[str, Any]] = []
        """What trained skills acted with in these episodes, see `rearrange.system.machine`."""
        self._folder, self._settings, self._parse = folder, settings, parse or _record
        self.damaged: list[int] = []
        """Numbers of the whole lines that were no records, and are dropped."""
        self._file: BinaryIO | None = None
        self._read(num_episodes)
        self.num_before = len(self.records)
        self.write()

    def add(self, record: Any) -> None:
        """Stores an episode safely, even if the process is killed right after."""
        self.records[record.index] = record
        path = self._folder / EPISODES_FILE
        try:
            if self._file is None:
                self._file = open(path, "ab", buffering=0)  # noqa: SIM115, until the end
            self._file.write(_line(record).encode())
            os.fsync(self._file.fileno())
        except OSError as error:
            raise write_error(path, error) from error

    def acts_with(self, facts: list[dict[str, Any]]) -> None:
        """Notes what trained skills act with, before the first episode that they did with it."""
        if new := [fact for fact in facts if fact not in self.acting]:
            self.acting += new
            self._write_settings()

    def write(self) -> None:
        """Writes all lines in order of their index, and the settings behind them.

        Anew, should somebody have removed the folder: without the settings its lines are useless.
        """
        self.close()
        self._write_settings()
        lines = [_line(self.records[index]) for index in sorted(self.records)]
        atomic_write_text(self._folder / EPISODES_FILE, "".join(lines))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_damaged(self) -> str:
        """A line on the lines that were dropped."""
        many = "line" if len(self.damaged) == 1 else "lines"
        rest = ", ..." if self.damaged[_SHOWN:] else ""
        which = ", ".join(map(str, self.damaged[:_SHOWN])) + rest
        return (
            f"dropped damaged lines of {self._folder / EPISODES_FILE}: {len(self.damaged)} "
            f"({many} {which}); their episodes run again"
        )

    def _read(self, num_episodes: int) -> None:
        records, damaged = _stored(self._folder, self._parse)
        if not records and not (self._folder / "summary.json").exists():
            return  # nothing to mix up or lose
        settings, acting = _settings_and_acting(self._folder)
        if difference := _difference(settings, self._settings):
            raise _refused(self._folder, f"results of other settings ({difference})")
        if not all(map(_is_acting, acting)):
            raise _refused(self._folder, f"a damaged {SETTINGS_FILE}")
        self.acting, self.records, self.damaged = acting, records, damaged
        if self.records and max(self.records) >= num_episodes:
            most = max(self.records) + 1
            raise _refused(self._folder, f"results of {most} episodes, more than {num_episodes=}")

    def _write_settings(self) -> None:
        content = {"settings": self._settings, "acting": self.acting}
        atomic_write_json(self._folder / SETTINGS_FILE, content)


def stored_settings(folder: Path) -> dict[str, Any]:
    """The settings behind a folder's results, see `settings_of`. Raises UserError."""
    return _settings_and_acting(folder)[0]


def stored_records(folder: Path) -> dict[int, EpisodeRecord]:
    """Index -> record of a folder of the home's episodes. Raises UserError for a damaged line."""
    records, damaged = _stored(folder, _record)
    if damaged:
        raise UserError(
            f"{folder / EPISODES_FILE}, line {damaged[0]} must be the record of an episode, but it "
            "is damaged: the command that wrote it runs such episodes again"
        )
    return records


def _stored(folder: Path, parse: Callable[[str], Any | None]) -> tuple[dict[int, Any], list[int]]:
    """Index -> record, and the numbers of lines that are none, except an unfinished last one."""
    path = folder / EPISODES_FILE
    content = read_whole_file(path, EPISODES_LIMIT) if path.exists() else b""
    lines = content.decode(errors="replace").split("\n")
    found = [parse(line) for line in lines]
    damaged = [
        number
        for number, (line, record) in enumerate(zip(lines[:-1], found, strict=False), start=1)
        if record is None and line.strip()
    ]
    return {record.index: record for record in found if record is not None}, damaged


def _is_acting(facts: Any) -> bool:
    """Whether this is what `acting_facts` says."""
    kinds = {"cpu_capability": str, "onednn_bfloat16": bool, "threads": int}
    return is_object(facts) and all(type(facts.get(name)) is kinds[name] for name in kinds)


def _settings_and_acting(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    path = folder / SETTINGS_FILE
    if not path.exists():
        raise _refused(folder, f"results without {SETTINGS_FILE}")
    try:
        found = strict_json(read_whole_file(path, SETTINGS_LIMIT).decode())
        settings, acting = found["settings"], found["acting"]
        is_right = isinstance(settings, dict) and isinstance(acting, list)
    except (ValueError, KeyError, TypeError) as error:
        raise _refused(folder, f"a damaged {SETTINGS_FILE}") from error
    if not is_right:
        raise _refused(folder, f"a damaged {SETTINGS_FILE}")
    return settings, acting


def _refused(folder: Path, what: str) -> UserError:
    way_on = "choose another folder, or remove it to begin anew"
    return UserError(f"{folder} holds {what}: {way_on}")


def _line(record: Any) -> str:
    return json.dumps(record.to_json(), allow_nan=False) + "\n"


def _record(line: str) -> EpisodeRecord | None:
    """The record of a line; None for an invalid or incomplete one."""
    kinds = {"index": int, "scene": str, "success": bool, "stages": dict, "steps": int,
             "force": (int, float), "path_length": (int, float), "attempts": list,
             "targets": dict, "last_step": str}  # fmt: skip
    with suppress(ValueError):
        values = strict_json(line)
        if isinstance(values, dict):
            values = {"targets": {}, "last_step": ""} | values  # absent in older lines
        if (
            isinstance(values, dict)
            and set(values) == {field.name for field in fields(EpisodeRecord)}
            and all(isinstance(values[name], kind) for name, kind in kinds.items())
            and all(isinstance(reached, bool) for reached in values["stages"].values())
            and all(
                isinstance(pair, list) and [*map(type, pair)] == [str, bool]
                for pair in values["attempts"]
            )
            and all(
                isinstance(names, list) and [*map(type, names)] == [str] * len(Names._fields)
                for names in values["targets"].values()
            )
            and isinstance(values["failure"], str | None)
            and values["success"] == (values["failure"] is None)
            and type(values["index"]) is type(values["steps"]) is int  # True is one too
            and values["index"] >= 0
            and values["steps"] >= 0
            and json.dumps(values, ensure_ascii=False).encode()  # a page can hold it
        ):
            values["attempts"] = [tuple(pair) for pair in values["attempts"]]
            return EpisodeRecord(**values)
    return None


def differences(
    old: Any, new: Any, absent: Any = None, name: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Each differing setting: its dotted name and both values.

    Args:
        absent: value of a setting that one of them lacks.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*new, *(key for key in old if key not in new)]:
            inner = f"{name}.{key}" if name else key
            yield from differences(old.get(key, absent), new.get(key, absent), absent, inner)
    elif old != new:
        yield name, old, new


def _difference(old: Any, new: Any) -> str | None:
    """A description of the first differing setting."""
    name, before, now = next(differences(old, new), (None, None, None))
    if name is None:
        return None
    if name == "code":
        return "the program has changed since"
    if name.startswith("modules."):
        return f"{name.removeprefix('modules.')} has changed since"
    if name in ("home_file", "domain_file"):
        return f"the {name.partition('_')[0]}'s file has changed since"
    if name == "episodes" or name.startswith("trained_skills."):
        return f"another {name}"
    return f"{name} {quoted(before)}, now {quoted(now)}"


def code_digest() -> str:
    """SHA-256 of our modules that affect episodes."""
    whole = hashlib.sha256()
    for pattern in _DECIDING:
        for root in map(Path, rearrange.__path__):
            for path in sorted(root.glob(pattern)):
                whole.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return whole.hexdigest()


def own_modules(words: Iterable[str | None]) -> dict[str, dict[str, str]]:
    """{"modules": {name: SHA-256}} of the user's code that `package.module:Name` words name.

    Of a package all its files count, as one may use the other, of a single file those beside it
    that it imports; {} if no word names a module.
    """
    found: dict[str, str] = {}
    for word in words:
        name = (word or "").rpartition(":")[0].partition(".")[0]
        spec = importlib.util.find_spec(name) if name and name != rearrange.__name__ else None
        if spec is None:
            continue
        whole = hashlib.sha256()
        folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
        files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        if not folders and spec.origin is not None and Path(spec.origin).is_file():
            files = sorted(_with_imported(Path(spec.origin), set()))
        for path in files:
            whole.update(f"{path.name}\n".encode() + path.read_bytes())
        found[name] = whole.hexdigest()
    return {"modules": found} if found else {}


def _with_imported(path: Path, seen: set[Path]) -> set[Path]:
    """A module's file and those beside it, packages too, that it imports, directly or not."""
    if path in seen:
        return seen
    seen.add(path)
    names: set[str] = set()
    with suppress(SyntaxError):  # of one that is never imported
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    for name in names:
        beside, package = path.with_name(f"{name}.py"), path.with_name(name)
        for other in [beside] if beside.is_file() else package.rglob("*.py"):
            _with_imported(other, seen)
    return seen


def own_domain(task: str) -> dict[str, str]:
    """{"domain_file": SHA-256} of the PDDL file of a task whose domain is not ours; else {}."""
    domain = TASKS.find(task).domain if ":" in task or task in TASKS else None
    if domain is None or (pddl := DOMAINS[domain].pddl) == DOMAIN_PATH:
        return {}
    return {"domain_file": file_digest(pddl)}
