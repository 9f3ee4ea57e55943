"""An evaluation to look at again: the same agent in the same episodes, failures first.

    OUT/settings.json, episodes.jsonl --> settings of the page, and the episodes in their order

An episode follows from task, split, seed and index, and what an agent does from what it sees, so
that what comes is what was evaluated; where it is not, because the program or the skills have
changed since, the page says so.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rearrange.configs.schema import AgentSettings, TaskCfg
from rearrange.configs.viewing import ViewCfg
from rearrange.errors import UserError
from rearrange.eval.compare import read_result
from rearrange.eval.episode_store import settings_of
from rearrange.eval.missing_episodes import versions
from rearrange.eval.runner import EpisodeRecord, runner_cfg
from rearrange.planner.home.descriptions import describe_progress
from rearrange.system.files import file_digest, user_path
from rearrange.tasks.rules.definition import TASKS

OWN = ("skills", "checkpoint")  # where files lie now: an evaluation keeps only what was in them


@dataclass(frozen=True)
class Evaluation:
    """What was evaluated, to be seen again."""

    cfg: ViewCfg
    records: dict[int, EpisodeRecord]
    order: tuple[int, ...]
    """Indices of the episodes: failures first."""
    changes: tuple[str, ...]
    """What has changed since, in words: then other things may happen."""

    def rows(self) -> list[list[Any]]:
        """Index, how it ended, and how far it was, of each episode in its order."""
        return [
            [index, record.result(), describe_progress(record.stages), record.success]
            for index, record in ((index, self.records[index]) for index in self.order)
        ]

    def after(self, index: int) -> int:
        """The episode to be shown after that one; the first after the last."""
        place = self.order.index(index) if index in self.order else -1
        return self.order[(place + 1) % len(self.order)]

    def verdict(self, index: int, result: str, steps: int) -> str:
        """Whether an episode ended as it did when it was evaluated."""
        record = self.records.get(index)
        if record is None:
            return ""
        if record.result() == result and record.steps == steps:
            return "As it was evaluated, to the step."
        return f"It was evaluated otherwise: {record.result()}, after {record.steps} steps."


def read_evaluation(cfg: ViewCfg) -> Evaluation:
    """The evaluation in the folder `cfg.run`.

    Raises UserError for a folder that holds none, for settings that it says itself, and for trained
    skills that are not those of then.
    """
    assert cfg.run is not None
    _check_left_out(cfg)
    folder = user_path(cfg.run)
    result = read_result(folder)
    settings = result.settings
    if (backend := settings.get("backend", "mujoco")) != "mujoco":
        raise UserError(
            f"{folder} was evaluated in {backend}, the page shows MuJoCo: `rearrange record "
            f"backend={backend} index=INDEX` films such an episode"
        )
    for what in ("task", "agent"):
        _check_typed(cfg, folder, what, settings[what])
    task = TASKS.find(settings["task"])
    if settings.get("episodes") is not None:
        _check_episodes(cfg, settings["episodes"])
    elif cfg.episodes is not None:
        raise UserError(f"episodes does not go with run={cfg.run}: it was evaluated without a file")
    cfg = replace(
        cfg,
        task=TaskCfg(name=settings["task"], title=task.title),
        agent=settings["agent"],
        split=settings["split"],
        seed=settings["seed"],
        homes=settings["homes"],
        time_limit=True,
        run=None,
        **_of_agent(settings),
    )
    now = settings_of(runner_cfg(cfg, episodes=cfg.episodes), versions())
    if now["trained_skills"] != settings["trained_skills"]:
        raise UserError(
            f"the trained skills are not those of {folder}: give those by skills=DIR or checkpoint="
        )
    if settings.get("home_file", now.get("home_file")) != now.get("home_file"):
        raise UserError(
            f"{cfg.homes} has changed since {folder} was written: put the old file back"
        )
    order = sorted(result.records, key=lambda index: (result.records[index].success, index))
    return Evaluation(cfg, result.records, tuple(order), tuple(changes_between(settings, now)))


def _of_agent(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that the agent understands, as they have to be given."""
    from rearrange.planner.agents.skill_set import accepted_settings_of

    found = {
        "looks": settings["looks"],
        "sample": settings["is_sampling"],
        "oracle_skills": list(settings["oracle_skills"]),
        "max_failures": settings["max_failures"],
        "limits": dict(settings["limits"]),
    }
    understood = accepted_settings_of(settings["agent"])
    return {name: value for name, value in found.items() if name in understood}


def _check_left_out(cfg: ViewCfg) -> None:
    unset = ViewCfg()
    names = [field.name for field in fields(AgentSettings) if field.name not in OWN]
    for name in (*names, "split", "seed", "index"):
        if name != "agent" and getattr(cfg, name) != getattr(unset, name):
            raise UserError(f"{name} does not go with run=, which says all of it")


def _check_typed(cfg: ViewCfg, folder: Path, what: str, word: str) -> None:
    """A module is imported only if the user names it, never because a file does."""
    given = None
    if cfg.given is not None:
        given = (cfg.given.choices | cfg.given.values).get(what)
    elif getattr(cfg, what) != getattr(ViewCfg(), what):
        given = cfg.agent if what == "agent" else cfg.task.name
    module = word.rpartition(":")[0]
    if given is not None and (given != word or not module):
        raise UserError(f"{what} does not go with run=, which says all of it")
    if given is None and module and module not in sys.modules:
        raise UserError(
            f"{folder} was evaluated with {what} {word}, whose module is imported only if you name "
            f"it: add {what}={word}"
        )


def _check_episodes(cfg: ViewCfg, expected: str) -> None:
    if cfg.episodes is None:
        raise UserError(f"{cfg.run} is of an episode file: give it by episodes=FILE")
    if file_digest(user_path(cfg.episodes)) != expected:
        raise UserError(f"{cfg.run} is of another episode file than {cfg.episodes}")


def changes_between(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What has changed between two `settings_of`, in words."""
    changes = ["the program has changed"] if then["code"] != now["code"] else []
    for name, version in now["versions"].items():
        if then["versions"].get(name) != version:
            changes.append(f"{name} was {then['versions'].get(name)}, now {version}")
    modules = then.get("modules", {})  # the user's own code
    changes += [
        f"{name} has changed"
        for name, digest in now.get("modules", {}).items()
        if modules.get(name) != digest
    ]
    return changes
