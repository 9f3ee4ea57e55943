"""The plot of `rearrange bench scaling`: speed and efficiency over ranks, points and lines.

Points are measured, lines simulated.
"""

from __future__ import annotations

from typing import Any

from rearrange.eval.benchmarks.scaling.simulation import WAYS


def draw(results: dict[str, Any]) -> Any:
    """The matplotlib figure of a bench's results."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.6), dpi=120, layout="constrained")
    speed, efficiency = figure.subplots(1, 2)
    measured, simulated = results["measured"], results["simulated"]
    ways = list(next(iter(measured.values())))
    for color, way in enumerate(ways):
        style = {"color": f"C{color}", "label": WAYS[way].title}
        for axes, name in ((speed, "rate"), (efficiency, "efficiency")):
            axes.plot(list(measured), [m[way][name] for m in measured.values()], "o", **style)
            sizes = list(simulated)
            axes.plot(sizes, [s[way][name] for s in simulated.values()], color=f"C{color}")
    if simulated and "ver" in ways:
        values = [ranks["ver"]["efficiency_free"] for ranks in simulated.values()]
        efficiency.plot(list(simulated), values, "C0:", label="VER, all-reduce for nothing")
    largest = max([*measured, *simulated])
    for way in ("ver", "ddppo"):
        if way in ways:
            one = measured[1][way]["rate"]
            speed.plot([1, largest], [one, one * largest], color="0.7", linewidth=1.0, zorder=0)
    speed.set(yscale="log", ylabel="steps per second")
    efficiency.set(ylim=(0.0, None), ylabel="efficiency: speed / sum of the ranks' own")
    efficiency.axhline(1.0, color="0.7", linewidth=1.0)
    for axes in (speed, efficiency):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xlabel("ranks")
        axes.grid(alpha=0.3)
    handles, labels = efficiency.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=3,
        title="points: measured, lines: simulated",
    )
    return figure
