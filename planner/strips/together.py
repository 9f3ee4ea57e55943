"""Mutexes: which pairs of facts can never hold at the same time.

    an action runs only where all pairs of its preconditions may hold together; afterwards each fact
    that it adds may hold together with the others it adds, and with whatever may hold together with
    all its preconditions and is not deleted

One row of bits per fact, computed for all facts at once. Source: Haslum and Geffner, Admissible
heuristics for optimal planning, AIPS 2000 (h2).
"""

from __future__ import annotations

import numpy as np

from rearrange.planner.strips.encoding import EncodedTask, facts_of

MAX_SIZE = 40_000_000
"""Facts x actions: some 3 s. Beyond it every pair counts as possible."""


def facts_together(task: EncodedTask) -> list[int]:
    """By fact: the facts that may hold together with it, itself included, as bits."""
    num_facts = len(task.literals)
    if num_facts * len(task.operators) > MAX_SIZE:
        return [(1 << num_facts) - 1] * num_facts
    rows = [0] * num_facts
    for fact in facts_of(task.init):
        rows[fact] = task.init
    while _extend(task, rows):
        rows = _symmetric(rows)
    return rows


def _extend(task: EncodedTask, rows: list[int]) -> bool:
    """Adds what one round of actions brings together; whether that was anything new."""
    is_changed = False
    possible = sum(1 << fact for fact, row in enumerate(rows) if row)
    for operator in task.operators:
        needed, common = operator.precondition_mask, possible
        for fact in operator.preconditions:
            row = rows[fact]
            if row & needed != needed:
                break
            common &= row
        else:
            after = common & operator.keep_mask | operator.add_mask
            for fact in operator.adds:
                if after & ~rows[fact]:
                    rows[fact] |= after
                    possible |= 1 << fact
                    is_changed = True
    return is_changed


def _symmetric(rows: list[int]) -> list[int]:
    width = (len(rows) + 7) // 8
    packed = np.frombuffer(b"".join(row.to_bytes(width, "little") for row in rows), np.uint8)
    bits = np.unpackbits(packed.reshape(len(rows), width), axis=1, bitorder="little")
    bits = bits[:, : len(rows)]
    packed = np.packbits(bits | bits.T, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]
