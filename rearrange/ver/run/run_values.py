"""The training values in a checkpoint's manifest, checked before any is restored.

A manifest has a checksum, but anybody can compute one for a wrong manifest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rearrange.system.checked_json import Node
from rearrange.ver.run.snapshot import LAYOUT

MOST = 2**53  # largest value of a counter
MANY = 2**17  # environments of all ranks; a rank has at most 65535


def check_run_values(
    values: dict[str, Any],
    where: str,
    optimizers: Iterable[str] = ("optimizer", "entropy_optimizer"),
) -> None:
    """Raises UserError, naming the field, for a value of another type or out of range.

    Args:
        optimizers: names of the optimizers whose settings may occur.
    """
    node = Node(values, where)
    node["mode"].text()
    for name in ("updates", "restarts"):
        node[name].integer(0, MOST)
    for name in ("optimizer_steps", "skipped_minibatches"):
        if name in values:
            node[name].integer(0, MOST)
    _check_episodes(node["episodes"])
    _check_snapshot(node["snapshot"])
    if "reward_scaler" in values:
        for number in node["reward_scaler"]["returns"].list(MANY):
            number.number()
        count, _, square = node["reward_scaler"]["moments"].numbers(3)
        if count < 0.0 or square < 0.0:
            node["reward_scaler"]["moments"].fail("hold a count and a sum of squares")
    for name in optimizers:
        if name in values:
            _check_optimizer(node[name])
    if "memory" in values:
        for record in node["memory"].list(MANY):
            record["file"].text()
            record["size"].integer(0, MOST)


def _check_episodes(node: Node) -> None:
    node["num_finished"].integer(0, MOST)
    of_envs = node["of_envs"].list(MANY) if "of_envs" in node.value else []
    for episodes in of_envs:
        for episode in episodes.list(MANY):
            for _, value in episode.items():
                if value.value is not None:
                    value.number()


def _check_snapshot(node: Node) -> None:
    node["random"].items()
    numbers = node["episode_numbers"].list(MANY, 1)
    for number in numbers:
        number.integer(-1, MOST)  # -1: its first episode had not begun
    if "failed_resets" in node.value:
        for seed, count in node["failed_resets"].items():
            if not (seed.isdecimal() and len(seed) < 20):
                count.fail("belong to a seed", seed[:20])
            count.integer(0, MOST)
    if not node["is_exact"].boolean():
        return
    node["seed"].integer(0, MOST)
    if (stagger := node.value.get("stagger")) is not None and not isinstance(stagger, dict):
        node["stagger"].fail("be an object or null")
    for name in ("pending", "arrived"):
        for env in node[name].list(MANY):
            env.integer(0, len(numbers) - 1)
    if "batched" in node.value:
        for _, part in node["batched"].items():
            for number in part.list(MANY) if isinstance(part.value, list) else [part]:
                number.integer(0, MOST)
    if "environments" not in node.value:  # batched, or of an older layout: not restored exactly
        return
    for environment in node["environments"].list(len(numbers), len(numbers)):
        if environment["clock"].value is not None:
            environment["clock"].integer(0, MOST)
        environment["is_whole"].boolean()
        environment["seed_number"].integer(0, MOST)
        if node.value.get("layout") == LAYOUT:
            environment["age"].integer(0, MOST)


def _check_optimizer(node: Node) -> None:
    for group in node.list(64):
        for _, setting in group.items():
            if isinstance(setting.value, list):
                for number in setting.list(8):
                    number.number()
            elif setting.value is not None and not isinstance(setting.value, bool):
                setting.number()
