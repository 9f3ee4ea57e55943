"""`rearrange plot`: learning curves of training runs, one panel per metric.

Runs with the same settings form a group: seeds of one experiment.
A group's line is the mean over its runs, the band its 95% interval by Student's t; of one run, or
of two, whose interval would be 13 times as wide as they are apart, there is no band.
"""

import difflib
import math
import textwrap
from itertools import groupby
from typing import Any

import numpy as np

from rearrange.commands.results.training_runs import Run, read_run, told_apart
from rearrange.configs.schema import PlotCfg
from rearrange.errors import UserError
from rearrange.eval.intervals import mean_over_seeds
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_figure, prepare_file

NUM_POINTS = 150  # of a curve, on a panel of about 700 pixels
MIN_RUNS = 3  # for a band
ONE_COLUMN = 3  # groups at most, in a legend
SHORT_LABEL, LINE = 32, 72  # characters, of a legend in two columns and in one
FORMATS = (".png", ".svg", ".pdf")


def run(settings: PlotCfg) -> int:
    """Draws the figure; returns 0.

    Raises:
        UserError: if a run cannot be read, no run has a metric, or the figure cannot be written.
    """
    output = user_path(settings.output)
    if output.suffix not in FORMATS:
        raise UserError(f"output must end in {', '.join(FORMATS)}, got {output}")
    if not settings.runs:
        raise UserError("plot needs the folder of at least one training run")
    runs = told_apart([read_run(user_path(folder)) for folder in settings.runs])
    metrics = [metric for metric in settings.metrics if _has_values(runs, metric)]
    for metric in settings.metrics:
        if metric not in metrics:
            print(f"no panel for {metric}: it has no value in these runs")
    if not metrics:
        raise UserError("these runs have no values to plot yet")
    for line in cut(runs, metrics, settings.x):
        print(line)
    prepare_file(output)
    figure = draw(runs, metrics, settings.x, settings.smooth)
    atomic_write_figure(output, figure)
    print(f"wrote {output}")
    return 0


def draw(runs: list[Run], metrics: list[str], x: str, smooth: int) -> Any:
    """The matplotlib figure: a panel for each metric, a colour for each group."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    by_label = sorted(runs, key=lambda run: run.label)
    groups = {label: list(found) for label, found in groupby(by_label, lambda run: run.label)}
    unit, unit_s = _time_unit(runs)
    is_long = any(len(label) > SHORT_LABEL for label in groups)
    columns = 1 if is_long or len(groups) <= ONE_COLUMN else 2
    num_lines = sum(len(textwrap.wrap(f"{label} (99 runs)", LINE)) for label in groups) / columns
    height = 0.5 + 0.21 * math.ceil(num_lines) + 3.3 * len(metrics)
    figure = Figure(figsize=(7.5, height), dpi=120, layout="constrained")
    panels = figure.subplots(len(metrics), 1, squeeze=False, sharex=True)[:, 0]
    for axes, metric in zip(panels, metrics, strict=True):
        for color, (label, group) in enumerate(groups.items()):
            curves = [run.curve(metric, x, smooth) for run in group]
            curves = [curve for curve in curves if len(curve[0])]
            if not curves:
                continue
            places, mean, low, high = mean_curve(curves)
            if x == "time":
                places = places / unit_s
            name = f"{label} ({len(curves)} runs)" if len(curves) > 1 else label
            marker = "o" if len(places) == 1 else None
            axes.plot(places, mean, color=f"C{color}", label=name, marker=marker)
            if len(curves) >= MIN_RUNS:
                axes.fill_between(places, low, high, color=f"C{color}", alpha=0.2, linewidth=0)
        axes.set_ylabel(metric)
        axes.grid(alpha=0.3)
        if metric.endswith("success"):
            axes.set_ylim(-0.03, 1.03)
        if x == "step":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    panels[-1].set_xlabel("environment steps" if x == "step" else f"training time ({unit})")
    # Below the panels: a curve may be anywhere in them.
    handles = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    names = ["\n".join(textwrap.wrap(name, LINE)) for name in handles]
    figure.legend(handles.values(), names, loc="outside lower center", ncols=columns)
    return figure


def cut(runs: list[Run], metrics: list[str], x: str) -> list[str]:
    """A line for each mean that ends before its longest run does."""
    lines = []
    unit, unit_s = _time_unit(runs)
    for label in sorted({run.label for run in runs}):
        for metric in metrics:
            curves = [run.curve(metric, x, 1) for run in runs if run.label == label]
            curves = [curve for curve in curves if len(curve[0])]
            if len(curves) < 2:
                continue
            longest = max(times[-1] for times, _ in curves)
            end = mean_curve(curves)[0].max(initial=0.0)
            if end < longest:
                shown = [f"{p:,.0f} steps" if x == "step" else f"{p / unit_s:.3g} {unit}"
                         for p in (end, longest)]  # fmt: skip
                lines.append(
                    f"{label}, {metric}: cut at {shown[0]}, where no more than half of the "
                    f"{len(curves)} runs go on; the longest has {shown[1]}"
                )
    return lines


def mean_curve(
    curves: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and 95% interval of curves, where more than half of them have values.

    Beyond that a single run that started early or ended late would stand for all.

    Returns:
        places, mean, low, high, [n] each; low and high are NaN where there are too few runs.
    """
    if len(curves) == 1:
        places, values = curves[0]
        return places, values, values, values
    first = min(times[0] for times, _ in curves)
    last = max(times[-1] for times, _ in curves)
    places = np.unique(np.linspace(first, last, NUM_POINTS))  # one, after a single update
    values = np.stack(
        [np.interp(places, times, ys, left=np.nan, right=np.nan) for times, ys in curves]
    )
    is_known = np.isfinite(values)
    is_drawn = is_known.sum(axis=0) > len(curves) / 2
    places = places[is_drawn]
    points = [
        mean_over_seeds(column[known])
        for column, known in zip(values.T[is_drawn], is_known.T[is_drawn], strict=True)
    ]
    mean, low, high = (
        np.array([point[name] for point in points], float) for name in ("mean", "low", "high")
    )
    is_few = is_known[:, is_drawn].sum(axis=0) < MIN_RUNS
    low[is_few] = high[is_few] = np.nan
    return places, mean, low, high


def _has_values(runs: list[Run], metric: str) -> bool:
    """Whether any run has a value; raises UserError if none even has the name."""
    names = sorted({name for run in runs for line in run.lines for name in line})
    names = [name for name in names if name not in ("step", "time_s")]
    if metric not in names:
        close = difflib.get_close_matches(metric, names, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(names)}"
        raise UserError(f"no run has the metric '{metric}': {hint}")
    return any(line.get(metric) is not None for run in runs for line in run.lines)


def _time_unit(runs: list[Run]) -> tuple[str, float]:
    """Name and seconds of the unit in which the longest run gives readable numbers."""
    longest = max(run.lines[-1]["time_s"] for run in runs)
    if longest > 2 * 3600:
        return "h", 3600.0
    return ("min", 60.0) if longest > 2 * 60 else ("s", 1.0)
