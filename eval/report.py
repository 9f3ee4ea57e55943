"""Summary and records -> the terminal's table, the stage plot, and an HTML report.

The page embeds its styles and its figure; the videos are beside it in videos/.
"""

import base64
import io
from collections import Counter
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from rearrange.configs.schema import TaskCfg
from rearrange.eval.metrics import AFTER_STAGES, by_layout
from rearrange.eval.runner import EpisodeRecord
from rearrange.planner.home.descriptions import (
    Descriptions,
    any_step,
    describe_progress,
    describe_stages,
)
from rearrange.system.html import page, table
from rearrange.tasks.rules.definition import TASKS

MOST_TO_WATCH = 5  # suggested films


def summary_table(summary: dict[str, Any], task: TaskCfg) -> str:
    """The command's final output."""
    success = summary["success"]
    lines = [
        f"{task.title}: {summary['agent']}, {_source(summary)}, "
        f"{summary['num_episodes']} episodes in {summary['num_apartments']} apartments"
        f"{_seed(summary)}",
        *([credit] if (credit := who_acted(summary)) else []),
        "",
        f"{'':<24}{'mean':>8}   95% interval",
        f"{'success':<24}{_percents(success)}",
    ]
    stages = _described_stages(summary)
    lines += [f"{stages[s['name']]:<24}{_percents(s)}" for s in summary["stages"]]
    if summary["skills"]:
        lines += ["", f"{'skill':<24}{'worked':>8}   of attempts"]
        lines += [
            f"{name:<24}{_share(count):>8}   {count['successes']} of {count['attempts']}"
            for name, count in summary["skills"].items()
        ]
    if summary["failures"]:
        lines += ["", "failures"]
        lines += [f"{count:>5}  {label}" for label, count in _failures(summary).items()]
    lines += [
        "",
        f"{summary['control_steps']} control steps; {how_fast(summary)}",
    ]
    if acting := acted_with(summary):
        lines.append(acting)
    if summary["workers_lost"]:
        lines.append(f"{summary['workers_lost']} workers were lost and replaced")
    return "\n".join(lines)


def _source(summary: dict[str, Any]) -> str:
    """Where the episodes come from."""
    return summary["split"] or f"episodes of {Path(summary['episodes']).name}"


def _seed(summary: dict[str, Any]) -> str:
    """That of the episodes; those of a file have their own."""
    return f", seed {summary['seed']}" if summary["split"] else ""


def _described_stages(summary: dict[str, Any]) -> dict[str, str]:
    return describe_stages(stage["name"] for stage in summary["stages"])


def _failures(summary: dict[str, Any]) -> Counter[str]:
    """Description of a failure -> number of episodes."""
    count: Counter[str] = Counter()
    for label, number in summary["failures"].items():
        count[_any_failure(summary, label)] += number
    return count


def _any_failure(summary: dict[str, Any], label: str) -> str:
    return Descriptions().failure(label, any_step(_task_name(summary)))


def _task_name(summary: dict[str, Any]) -> str:
    """The task's own name, of one that was typed as MODULE:NAME too."""
    word = summary["task"]
    return TASKS.name_of(word) if ":" in word else word


def who_acted(summary: dict[str, Any]) -> str:
    """A line on the chained skills: trained, the oracle's, left out; else empty."""
    parts = []
    for key, label in (
        ("trained_skills", "trained skills"),
        ("oracle_skills", "oracle skills, which read the simulator's state"),
        ("skipped_skills", "left out"),
    ):
        if names := summary.get(key):
            parts.append(f"{label}: {', '.join(names)}")
    return "; ".join(parts)


def how_fast(summary: dict[str, Any]) -> str:
    """A line on the time of the last command, for the episodes that it ran."""
    number = summary["num_episodes"] - summary["kept_episodes"]
    rest = f" for the last {number} episodes" if summary["kept_episodes"] else ""
    return (
        f"{summary['wall_time_s']:.0f} s{rest}, {summary['steps_per_second']:.0f} steps a second "
        f"with {summary['num_workers']} workers"
    )


def acted_with(summary: dict[str, Any]) -> str:
    """A line on the hardware of trained skills; empty without any."""
    kinds = []
    for facts in summary["acting"]:
        bfloat16 = "with" if facts["onednn_bfloat16"] else "without"
        kinds.append(f"{facts['cpu_capability']} {bfloat16} bfloat16, threads: {facts['threads']}")
    if not kinds:
        return ""
    return f"trained skills acted with {' and '.join(kinds)}; others change single episodes"


def draw_stages(summary: dict[str, Any], task: TaskCfg) -> bytes:
    """The curve of success over stages with its interval and the product bound, as PNG."""
    from matplotlib.figure import Figure

    points = summary["stages"] or [{"name": "success", **summary["success"]}]
    stage_names = _described_stages(summary)
    names = [str(stage_names.get(point["name"], point["name"])) for point in points]
    means = [100 * point["mean"] for point in points]
    below = [100 * (point["mean"] - point["low"]) for point in points]
    above = [100 * (point["high"] - point["mean"]) for point in points]
    places = range(len(points))

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    errors = [[max(0.0, value) for value in side] for side in (below, above)]
    axes.errorbar(places, means, yerr=errors, marker="o", capsize=4, label=summary["agent"])
    bounds = summary["product_bound"]
    known = [(place, 100 * bound) for place, bound in enumerate(bounds) if bound is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "k--", label="product of the skills' success rates")
    axes.set_xticks(list(places), names, rotation=30 if len(names) > 5 else 0)
    axes.set_ylim(0, 105)
    axes.set_xlim(-0.5, len(points) - 0.5)
    axes.set_ylabel("episodes that reach the stage (%)")
    axes.set_title(f"{task.title}, {_source(summary)}, {summary['num_episodes']} episodes")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def write_report(
    summary: dict[str, Any],
    records: list[EpisodeRecord],
    task: TaskCfg,
    figure: bytes,
    films: list[Path],
    record_command: Callable[[int], str | None],
) -> str:
    """The page as HTML text.

    Args:
        films: paths relative to it.
        record_command: episode -> the command that films it.
    """
    title = f"{task.title}: {summary['agent']} on {_source(summary)}"
    image = base64.b64encode(figure).decode()
    parts = [
        f"<h1>{escape(title)}</h1>",
        *_success(summary),
        "<h2>Stages</h2>",
        f'<img alt="success over stages" src="data:image/png;base64,{image}">',
        *_stages(summary),
        *_skills_and_failures(summary),
        *_to_watch(records, films, record_command),
        *_videos(records, films),
        *_episodes(records, films),
        *_run(summary),
    ]
    return page(title, parts)


# --- the parts of the page, each a list of lines --------------------------------------------------


def _success(summary: dict[str, Any]) -> list[str]:
    success = summary["success"]
    interval = f"{100 * success['low']:.1f} to {100 * success['high']:.1f}%"
    how = "Wilson's"
    if summary["num_apartments"] > 1:
        how += f", wider where the {summary['num_apartments']} apartments differ"
    return [
        f"<p class=quiet>{summary['num_episodes']} episodes{_seed(summary)}</p>",
        f"<p class=quiet>{escape(who_acted(summary))}</p>",
        f"<p class=success>{100 * success['mean']:.1f}% success</p>",
        f"<p class=quiet>95% interval {interval}: {how}</p>",
    ]


def _stages(summary: dict[str, Any]) -> list[str]:
    if not summary["stages"]:
        return []
    stage_names = _described_stages(summary)
    bounds = summary["product_bound"] or [None] * len(summary["stages"])
    return [
        table(
            ("stage", "reached", "95% interval", "product of skills"),
            (
                (stage_names[stage["name"]], *_percents(stage).split(maxsplit=1), _percent(bound))
                for stage, bound in zip(summary["stages"], bounds, strict=True)
            ),
        )
    ]


def _skills_and_failures(summary: dict[str, Any]) -> list[str]:
    stages = _described_stages(summary) | {AFTER_STAGES: "the end"}
    failures = table(
        ("first stage missed", "what went wrong", "episodes", "apartments"),
        (
            (
                stages[row["stage"]],
                _any_failure(summary, row["failure"]),
                row["num_episodes"],
                ", ".join(f"{scene}: {count}" for scene, count in row["scenes"].items()),
            )
            for row in summary["failure_places"]
        ),
    )
    return [
        "<h2>Skills</h2>",
        table(
            ("skill", "worked", "successes", "attempts"),
            (
                (name, _share(count), count["successes"], count["attempts"])
                for name, count in summary["skills"].items()
            ),
        ),
        "<h2>Failures</h2>",
        failures if summary["failures"] else "<p>None.</p>",
    ]


def _to_watch(
    records: list[EpisodeRecord], films: list[Path], record_command: Callable[[int], str | None]
) -> list[str]:
    """The first episode of each kind of failure, of the most frequent ones."""
    by_label: dict[str, list[EpisodeRecord]] = {}
    for record in records:
        if record.failure is not None:
            by_label.setdefault(record.failure, []).append(record)
    film_of = {film.stem: film.as_posix() for film in films}
    parts = []
    for same in sorted(by_label.values(), key=len, reverse=True)[:MOST_TO_WATCH]:
        first, link = same[0], film_of.get(f"episode_{same[0].index:04d}")
        text = escape(f"episode {first.index}, {first.scene}: {first.result()}")
        if len(same) > 1:
            text += f" ({len(same)} episodes failed like this)"
        if link is not None:
            text = f"<a href='{escape(link, quote=True)}'>{text}</a>"
        command = record_command(first.index)
        parts.append(f"<p>{text}</p>" + (f"<pre>{escape(command)}</pre>" if command else ""))
    return ["<h2>Failures to watch</h2>", *parts] if parts else []


def _videos(records: list[EpisodeRecord], films: list[Path]) -> list[str]:
    parts = ["<h2>Videos</h2>"] if films else []
    for film in films:
        record = next(r for r in records if f"episode_{r.index:04d}" == film.stem)
        text = f"episode {record.index}, {record.scene}: {record.result()}"
        source = escape(film.as_posix(), quote=True)
        parts.append(
            f"<p>{escape(text)}<br><video controls preload=metadata src='{source}'></video></p>"
        )
    return parts


def _episodes(records: list[EpisodeRecord], films: list[Path]) -> list[str]:
    film_of = {film.stem: film.as_posix() for film in films}
    return [
        "<h2>Apartments</h2>",
        table(
            ("apartment", "episodes", "success", "steps", "force (N)", "path (m)"),
            (
                (
                    row["scene"],
                    row["num_episodes"],
                    f"{row['success']:.0%}",
                    f"{row['steps']:.0f}",
                    f"{row['force']:.0f}",
                    f"{row['path_length']:.1f}",
                )
                for row in by_layout(records)
            ),
        ),
        "<h2>Episodes</h2>",
        table(
            ("episode", "apartment", "stages", "steps", "force (N)", "path (m)", "result"),
            (
                (
                    (r.index, film_of.get(f"episode_{r.index:04d}")),
                    r.scene,
                    describe_progress(r.stages) or "-",
                    r.steps,
                    f"{r.force:.0f}",
                    f"{r.path_length:.1f}",
                    r.result(),
                )
                for r in records
            ),
        ),
    ]


def _run(summary: dict[str, Any]) -> list[str]:
    acting = acted_with(summary)
    versions = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    facts = {
        "command": summary["command"],
        "commit": summary["commit"],
        "date": summary["date"],
        "machine": summary["machine"],
        "versions": versions,
    }
    lines = "<br>".join(escape(f"{name}: {fact}") for name, fact in facts.items() if fact)
    return [
        "<h2>Run</h2>",
        f"<p>{summary['control_steps']} control steps; {how_fast(summary)}; "
        f"workers lost: {summary['workers_lost']}."
        + (f" {escape(acting[0].upper() + acting[1:])}." if acting else "")
        + f"</p>\n<p>{lines}</p>",
    ]


def _percents(mean: dict[str, Any]) -> str:
    return f"{100 * mean['mean']:>7.1f}%   {100 * mean['low']:.1f} to {100 * mean['high']:.1f}%"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _share(count: dict[str, int]) -> str:
    return f"{100 * count['successes'] / count['attempts']:.1f}%"
