"""Somebody who plays Pick by the documented keys, and by nothing but what the page shows.

It looks, holds keys for a moment, lets go and looks again, so that a slow machine does no harm.
"""

from math import atan2, hypot
from typing import NamedTuple

EPISODE = 9  # of Pick in val: the can is on a table
DRIVE, TURN, HAND, SLOW = 0.6, 1.0, 0.25, 0.25  # m/s, rad/s, m/s; shift's share of them
REACH = 0.72  # m from the base to what is picked up
HOVER = 0.15  # m above it
CLOSE = 0.012  # m beside it that will do
LONGEST = 1.0  # s


class Move(NamedTuple):
    """Keys to hold for so many seconds, and keys to press before."""

    held: frozenset[str] = frozenset()
    seconds: float = 0.1
    pressed: tuple[str, ...] = ()


def hold(keys, amount, speed):
    """The keys until `amount` is gone at that speed; slowly if it is little."""
    if amount < 0.3 * speed:
        return Move(frozenset({*keys, "Shift"}), max(amount / (SLOW * speed), 0.03))
    return Move(frozenset(keys), min(0.9 * amount / speed, LONGEST))


class Player:
    """`move(state)`: what to do now, as a person might decide."""

    def __init__(self):
        self.phase, self.place, self.pushes = "rise", None, 0

    def move(self, state):
        """The next move, for what the page shows."""
        return getattr(self, self.phase)(state)

    def rise(self, state):
        if (z := state["to_go"][2]) > -HOVER:
            return hold("r", z + HOVER + 0.01, HAND)
        self.phase = "face"
        return self.face(state)

    def face(self, state):
        there = self.there(state)
        bearing = atan2(there[1], there[0])
        if abs(bearing) > 0.08:
            return hold("a" if bearing > 0 else "d", abs(bearing), TURN)
        self.phase = "approach"
        return self.approach(state)

    def approach(self, state):
        left = hypot(*self.there(state)) - REACH
        place = state["home"]["robot"][:2]
        if (
            self.place is not None
            and hypot(place[0] - self.place[0], place[1] - self.place[1]) < 0.01
        ):
            self.pushes += 1  # something is in the way
        self.place = place
        if abs(left) > 0.05 and self.pushes < 4:
            return hold("w" if left > 0 else "s", abs(left), DRIVE)
        self.phase = "over"
        return self.over(state)

    def over(self, state):
        x, y, _ = state["to_go"]
        if abs(x) > CLOSE or abs(y) > CLOSE:
            return self.aside(x, y)
        self.phase = "down"
        return Move(pressed=(" ",))

    def down(self, state):
        x, y, z = state["to_go"]
        if state["is_holding"]:
            self.phase, self.lifted_from = "lift", state["hand"][2]
            return self.lift(state)
        if abs(x) > 2 * CLOSE or abs(y) > 2 * CLOSE:
            return self.aside(x, y)
        if z < -0.14:
            return hold("f", -z - 0.12, HAND)
        return Move(frozenset({"f", "Shift"}), 0.2)

    def lift(self, state):
        if state["hand"][2] < self.lifted_from + 0.12:
            return Move(frozenset("r"), 0.3)
        self.phase = "rest"
        return self.rest(state)

    def rest(self, state):
        return Move(frozenset("c"), LONGEST)

    def aside(self, x, y):
        if abs(x) > abs(y):
            return hold({"ArrowUp" if x > 0 else "ArrowDown"}, abs(x), HAND)
        return hold({"ArrowLeft" if y > 0 else "ArrowRight"}, abs(y), HAND)

    def there(self, state):
        """The object from the base, m ahead and to the left."""
        return state["hand"][0] + state["to_go"][0], state["hand"][1] + state["to_go"][1]
