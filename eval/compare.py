"""Compares two evaluations of the same episodes, paired: differences and significance.

    output_dir of A, of B --> records by index --> the episodes that both have --> differences

The difference in success B - A, -1, 0 or 1 per episode, is averaged; its interval is Tango's for
as many episodes as the apartments are worth (`intervals.py`). The sign test uses only the episodes
that changed: by chance as many improve as get worse (McNemar 1947, exact).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

from rearrange.errors import UserError
from rearrange.eval.episode_store import (
    EPISODES_FILE,
    SETTINGS_FILE,
    differences,
    stored_records,
    stored_settings,
)
from rearrange.eval.intervals import paired_difference, rate_with_interval
from rearrange.eval.runner import EpisodeRecord
from rearrange.system.checked_json import quoted

ABSENT = "not there"
_KINDS = {
    str: ("task", "agent", "split", "homes", "looks", "code"),
    int: ("seed", "max_failures"),
    bool: ("is_sampling",),
    list: ("oracle_skills",),
    dict: ("limits", "versions", "trained_skills"),
}
SAME = (  # settings that determine the episodes
    "task", "split", "seed", "homes", "home_file", "episodes",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Result:
    """An evaluation's results, from its folder."""

    folder: Path
    settings: dict[str, Any]
    records: dict[int, EpisodeRecord]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of B with A, over the episodes that both have."""

    success_a: dict[str, float]
    success_b: dict[str, float]
    """{mean, low, high} of a rate."""
    difference: dict[str, float]
    """The same of B - A."""
    num_episodes: int
    only_a: list[int]
    only_b: list[int]
    """Indices of the episodes that only one of them solved."""
    chance: float
    """Probability of at least this difference if B is as good as A."""
    changed_settings: dict[str, tuple[Any, Any]]


def read_result(folder: Path) -> Result:
    """The results of an evaluation of the home. Raises UserError if there are none."""
    for name in (SETTINGS_FILE, EPISODES_FILE):
        if not (folder / name).is_file():
            raise UserError(f"{folder} must be the output_dir of an evaluation: it has no {name}")
    settings = stored_settings(folder)
    records = {}
    if "task" in settings:  # the records of other environments are others
        _check_settings(folder, settings)
        records = stored_records(folder)
    if not records:
        raise UserError(f"{folder} holds no episodes of a task: evaluate task=... writes them")
    return Result(folder=folder, settings=settings, records=records)


def _check_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Raises UserError where something is of another kind than `settings_of` says."""
    for kind, names in _KINDS.items():
        for name in names:
            if type(settings.get(name)) is not kind:  # as JSON has them: no bool is an int
                raise UserError(
                    f"damaged {folder / SETTINGS_FILE}: {name} must be of kind {kind.__name__}, "
                    f"got {quoted(settings.get(name))}"
                )
    if settings["seed"] < 0:
        raise UserError(
            f"damaged {folder / SETTINGS_FILE}: seed must not be negative, got {settings['seed']}"
        )


def _same_for(name: str, settings: dict[str, Any]) -> Any:
    """A setting that determines the episodes; of a task that was typed as MODULE:NAME its name."""
    value = settings.get(name)
    return str(value).rpartition(":")[2] if name == "task" else value


def compare(a: Result, b: Result) -> Comparison:
    """Raises UserError if they have no episodes in common, or others under the same numbers."""
    is_given = a.settings.get("episodes") is not None  # then a file says what the others would
    for name in ("task", "episodes") if is_given else SAME:
        if _same_for(name, a.settings) != _same_for(name, b.settings):
            raise UserError(
                f"only evaluations of the same episodes compare: {name} is "
                f"{a.settings.get(name)} in {a.folder} and {b.settings.get(name)} in {b.folder}"
            )
    if _elsewhere(a.settings) != _elsewhere(b.settings):
        raise UserError(
            f"only evaluations of the same episodes compare: {a.folder} and {b.folder} are of "
            "different episodes in Habitat (habitat.data)"
        )
    common = sorted(a.records.keys() & b.records.keys())
    if not common:
        raise UserError(f"{a.folder} and {b.folder} have no episode in common")
    for index in common:
        _check_same(a, b, index)
    seed, scenes = int(a.settings["seed"]), [a.records[index].scene for index in common]
    won_a = [a.records[index].success for index in common]
    won_b = [b.records[index].success for index in common]
    pairs = list(zip(common, won_a, won_b, strict=True))
    only_a = [index for index, a_won, b_won in pairs if a_won and not b_won]
    only_b = [index for index, a_won, b_won in pairs if b_won and not a_won]
    return Comparison(
        success_a=rate_with_interval(won_a, scenes, seed),
        success_b=rate_with_interval(won_b, scenes, seed),
        difference=paired_difference(won_a, won_b, scenes, seed),
        num_episodes=len(common),
        only_a=only_a,
        only_b=only_b,
        chance=sign_test(len(only_a), len(only_b)),
        changed_settings=_changed(a.settings, b.settings),
    )


def _check_same(a: Result, b: Result, index: int) -> None:
    """Raises UserError for an episode that has been drawn otherwise: the program that draws them
    may have changed."""
    one, other = a.records[index], b.records[index]
    of_a, of_b = one.scene, other.scene
    if of_a == of_b and one.targets and other.targets:  # old results do not have them
        of_a, of_b = (
            "; ".join(" ".join(names) for names in each.targets.values()) for each in (one, other)
        )
    if of_a != of_b:
        raise UserError(
            f"only evaluations of the same episodes compare: episode {index} has {of_a} in "
            f"{a.folder} and {of_b} in {b.folder}; evaluate one of them anew"
        )


def _elsewhere(settings: dict[str, Any]) -> str | None:
    """What tells habitat-lab's own episodes apart; None for ours, exported ones among them."""
    there: Any = settings.get("habitat", {})
    if not isinstance(there, dict):
        raise UserError(f"damaged settings.json: habitat must be an object, got {quoted(there)}")
    return None if there.get("data", "export") == "export" else str(there.get("episodes"))


def sign_test(losses: int, wins: int) -> float:
    """Probability of a split at least as uneven if both sides are equally likely, two-sided."""
    number = losses + wins
    tail = sum(comb(number, k) for k in range(min(losses, wins) + 1))
    return min(1.0, 2 * tail / 2**number)  # of whole numbers: 2.0**1024 is too large a float


def table(a: Result, b: Result, found: Comparison) -> str:
    """The command's output."""
    settings = a.settings
    difference = found.difference
    mean, low, high = (100.0 * difference[name] for name in ("mean", "low", "high"))
    whose = f"{settings['split']}, seed {settings['seed']}"
    if settings.get("episodes") is not None:
        whose = "one file of episodes"
    lines = [
        f"{settings['task']}, {whose}: {found.num_episodes} episodes that both have",
        "",
        f"{'':<8}{'success':>8}   95% interval",
        f"{'A':<8}{_percents(found.success_a)}   {a.folder}",
        f"{'B':<8}{_percents(found.success_b)}   {b.folder}",
        f"{'B - A':<8}{mean:>+7.1f}    {low:+.1f} to {high:+.1f}   in points",
        "",
        f"{len(found.only_b)} episodes only B solved, {len(found.only_a)} only A; "
        f"as uneven by chance alone: {found.chance:.2g} (sign test)",
    ]
    if found.changed_settings:
        lines += ["", "what differs in their settings"]
        lines += [f"  {name}: {x} -> {y}" for name, (x, y) in found.changed_settings.items()]
    for who, loser, indices in (("B", a, found.only_b), ("A", b, found.only_a)):
        if indices:
            lines += ["", f"only {who} solved"]
            lines += [
                f"{index:>6}  the other: {loser.records[index].result()}" for index in indices
            ]
    return "\n".join(lines)


def _percents(rate: dict[str, float]) -> str:
    low, high = 100 * rate["low"], 100 * rate["high"]
    return f"{100 * rate['mean']:>7.1f}%  {low:5.1f} to {high:5.1f}%"


def _changed(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, by dotted names; digests of files are cut to eight characters."""
    found = differences(new, old, ABSENT)  # this way around in the order of the old ones
    return {name: (_short(before), _short(now)) for name, now, before in found}


def _short(value: Any) -> Any:
    return value[:8] if isinstance(value, str) and len(value) == 64 else value
