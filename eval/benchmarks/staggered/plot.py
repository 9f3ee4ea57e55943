"""The plot of `rearrange bench staggered-resets`: means over seeds, with the range of all seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

CURVES = {"value_error": "value error", "policy_kl": "policy KL", "accuracy": "accuracy"}
COLORS = {"naive": "C0", "staggered": "C3"}


def draw(results: dict[str, Any]) -> Any:
    """The matplotlib figure of a bench's results."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 6.4), dpi=110, layout="constrained")
    places = figure.subplots(2, 3).ravel()
    cfg = results["settings"]
    for axes, (name, title) in zip(places, CURVES.items(), strict=False):
        for way, color in COLORS.items():
            values = np.array(results["curves"][way][name])
            updates = np.arange(1, values.shape[1] + 1)
            axes.plot(updates, values.mean(axis=0), color=color, label=way)
            axes.fill_between(
                updates, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2, linewidth=0
            )
        axes.set(xlabel="update", title=f"{title}, H = {cfg['horizon']}")
        axes.grid(alpha=0.3)
    for name in (0, 1):
        places[name].set_yscale("log")
    places[0].legend()
    images = [
        axes.imshow(
            np.array(results["forgetting"][way]).T, origin="lower", aspect="auto", vmin=0.0,
            vmax=1.0, cmap="inferno",
        )
        for axes, way in zip(places[3:], COLORS, strict=False)
    ]  # fmt: skip
    for axes, way in zip(places[3:], COLORS, strict=False):
        axes.set(xlabel="update", ylabel="block", title=f"forgetting, {way}")
    figure.colorbar(images[0], ax=places[3:5].tolist(), shrink=0.8)
    _draw_horizons(places[5], results["horizons"])
    return figure


def _draw_horizons(axes: Any, horizons: dict[int, Any]) -> None:
    """Success at the end against H, with intervals."""
    for way, color in COLORS.items():
        found = [horizons[horizon][way]["success"] for horizon in horizons]
        means = np.array([one["mean"] for one in found])
        ends = [
            [one["mean"] if one[end] is None else one[end] for one in found]
            for end in ("low", "high")
        ]
        reach = np.abs(np.clip(ends, 0.0, 1.0) - means)
        axes.errorbar(list(horizons), means, yerr=reach, color=color, marker="o", label=way)
    axes.set(xlabel="horizon H", title="success at the end", ylim=(-0.05, 1.05))
    axes.grid(alpha=0.3)
