"""Episode records -> metrics: success, stages and skills, with intervals (`intervals.py`).

chain success of stage k: the share of episodes that reached stage k
product bound of stage k: the product of the success rates of the skills needed up to stage k,
    the result of chaining if no skill suffered from the previous one (Habitat 2.0, Fig. 6); a
    failed attempt counts only if the skill did not succeed later in the episode: agents retry
"""

from collections import Counter
from typing import Any

import numpy as np

from rearrange.eval.intervals import mean_with_interval, rate_with_interval
from rearrange.eval.runner import EpisodeRecord


def stage_names(records: list[EpisodeRecord]) -> list[str]:
    """The stages in the task's order."""
    return list(dict.fromkeys(name for record in records for name in record.stages))


def stage_success(records: list[EpisodeRecord], seed: int) -> list[dict[str, Any]]:
    """For each stage {name, mean, low, high} of the share of episodes that reached it."""
    scenes = [record.scene for record in records]
    return [
        {"name": name}
        | rate_with_interval([record.stages.get(name, False) for record in records], scenes, seed)
        for name in stage_names(records)
    ]


def skill_counts(records: list[EpisodeRecord]) -> dict[str, dict[str, int]]:
    """Skill -> {attempts, successes} over all episodes."""
    counts: dict[str, dict[str, int]] = {}
    for record in records:
        for name, worked in record.attempts:
            count = counts.setdefault(name, {"attempts": 0, "successes": 0})
            count["attempts"] += 1
            count["successes"] += int(worked)
    return dict(sorted(counts.items()))


def product_bound(
    stage_skills: list[list[str]], records: list[EpisodeRecord]
) -> list[float | None]:
    """For each stage the product of the success rates of the skills it needs.

    None from the first stage on that needs a skill without attempts.
    """
    rates = _rates_with_retries(records)
    bounds: list[float | None] = []
    bound: float | None = 1.0
    for needed in stage_skills:
        for name in needed:
            bound = None if bound is None or name not in rates else bound * rates[name]
        bounds.append(bound)
    return bounds


def _rates_with_retries(records: list[EpisodeRecord]) -> dict[str, float]:
    """Skill -> successes / (successes + episodes in which its last attempt failed)."""
    worked: Counter[str] = Counter()
    given_up: Counter[str] = Counter()
    for record in records:
        worked.update(name for name, success in record.attempts if success)
        last = dict(record.attempts)
        given_up.update(name for name, success in last.items() if not success)
    return {name: worked[name] / (worked[name] + given_up[name]) for name in worked | given_up}


def failure_counts(records: list[EpisodeRecord]) -> dict[str, int]:
    """Label -> number of failed episodes, the most frequent first."""
    counts = Counter(record.failure for record in records if record.failure is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


AFTER_STAGES = "stop"
"""Where an episode failed that reached every stage, or has none."""


def failure_places(records: list[EpisodeRecord]) -> list[dict[str, Any]]:
    """For each stage and label {stage, failure, num_episodes, scenes}, stages in the task's order.

    `stage` is the first one that a failed episode did not reach, `scenes` the apartments with their
    number of episodes.
    """
    scenes: dict[tuple[str, str], Counter[str]] = {}
    for record in records:
        if record.failure is not None:
            missed = next((n for n, reached in record.stages.items() if not reached), AFTER_STAGES)
            scenes.setdefault((missed, record.failure), Counter())[record.scene] += 1
    order = [*stage_names(records), AFTER_STAGES]
    rows = [
        {"stage": stage, "failure": label, "num_episodes": count.total(),
         "scenes": dict(sorted(count.items()))}
        for (stage, label), count in scenes.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (order.index(row["stage"]), -row["num_episodes"], row["failure"]))
    return rows


def by_layout(records: list[EpisodeRecord]) -> list[dict[str, Any]]:
    """For each apartment {scene, num_episodes, success, steps, force, path_length} (means)."""
    rows = []
    for scene in sorted({record.scene for record in records}):
        there = [record for record in records if record.scene == scene]
        means = {
            name: float(np.mean([getattr(record, name) for record in there]))
            for name in ("success", "steps", "force", "path_length")
        }
        rows.append({"scene": scene, "num_episodes": len(there)} | means)
    return rows


def summarise(
    records: list[EpisodeRecord], stage_skills: list[list[str]], seed: int
) -> dict[str, Any]:
    """The part of summary.json that follows from the episodes alone."""
    is_known = len(stage_skills) == len(stage_names(records))  # otherwise the stages differ
    scenes = [record.scene for record in records]
    return {
        "num_apartments": len(set(scenes)),
        "success": rate_with_interval([record.success for record in records], scenes, seed),
        "stages": stage_success(records, seed),
        "product_bound": product_bound(stage_skills, records) if is_known else [],
        "skills": skill_counts(records),
        "failures": failure_counts(records),
        "failure_places": failure_places(records),
        "control_steps": sum(record.steps for record in records),
        "force": mean_with_interval([record.force for record in records], scenes, seed),
        "path_length": mean_with_interval([record.path_length for record in records], scenes, seed),
    }
