"""Building blocks of rewards."""

from __future__ import annotations


def force_penalty(added: float, coef: float, cap: float) -> float:
    """min(coef x newly accumulated force [N], cap): hab-spec 1.8."""
    return min(coef * added, cap)


class Progress:
    """Rewards getting closer: last distance minus this one, so that detours cancel out.

    Args:
        decimals: places to which the difference is rounded; None: no rounding. 3: millimetres, as
            in Habitat-lab's Pick and Place, so that trembling earns nothing.
    """

    __slots__ = ("_decimals", "_last")

    def __init__(self, decimals: int | None = None) -> None:
        self._decimals = decimals
        self._last: float | None = None

    def forget(self) -> None:
        """Call when the distance changes its meaning: the next step gives no reward."""
        self._last = None

    def step(self, distance: float) -> float:
        """Decrease since the last call, 0 after `forget`."""
        last, self._last = self._last, distance
        if last is None:
            return 0.0
        decrease = last - distance
        return decrease if self._decimals is None else round(decrease, self._decimals)
