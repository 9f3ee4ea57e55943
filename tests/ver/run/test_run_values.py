"""Manifests with a right checksum and wrong values."""

import copy

import pytest

from rearrange.errors import UserError
from rearrange.ver.run.run_values import check_run_values
from rearrange.ver.run.snapshot import LAYOUT

GOOD = {
    "identity": {},
    "mode": "ver",
    "updates": 3,
    "restarts": 0,
    "optimizer_steps": 24,
    "skipped_minibatches": 1,
    "episodes": {
        "num_finished": 2,
        "of_envs": [[{"return": 1.0, "length": 3, "success": None}], []],
    },
    "snapshot": {
        "random": {"bit_generator": "PCG64"},
        "episode_numbers": [4, 5],
        "failed_resets": {"123": 2},
        "is_exact": True,
        "seed": 0,
        "pending": [0],
        "arrived": [1],
        "environments": [
            {"clock": None, "is_whole": True, "seed_number": 4, "age": 9},
            {"clock": 3, "is_whole": False, "seed_number": 5, "age": 0},
        ],
        "layout": LAYOUT,
    },
    "optimizer": [{"lr": 1e-3, "betas": [0.9, 0.999], "amsgrad": False, "num_parameters": 3}],
    "memory": [{"file": "00.safetensors", "size": 3}],
    "reward_scaler": {"returns": [0.0, 1.0], "moments": [2.0, 0.5, 1.0]},
}


def places(value, path=()):
    """The paths to all values inside."""
    yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(child, (*path, key))


FREE = {
    ("identity",), ("mode",), ("snapshot", "random", "bit_generator"), ("snapshot", "layout"),
    ("memory", 0, "file"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", [{"x": 1}, "text", -1.5, None, [[]], 10**90])
def test_every_value_is_checked(wrong):
    check_run_values(GOOD, "here: ")
    accepted = []
    for path in list(places(GOOD))[1:]:
        values = copy.deepcopy(GOOD)
        place = values
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        try:
            check_run_values(values, "here: ")
        except UserError as error:
            assert str(error).startswith("here: ") and "\n" not in str(error)
        else:
            accepted.append(path)
    numbers = isinstance(wrong, float | int)
    for path in accepted:
        is_free = path in FREE or path[:2] == ("snapshot", "random")
        is_number = numbers and path[0] in ("episodes", "optimizer", "reward_scaler")
        is_none = wrong is None and path[0] in ("episodes", "optimizer", "snapshot")
        is_empty = wrong == [[]] and path == ("episodes", "of_envs")
        is_map = wrong == {"x": 1} and path in (("episodes", "of_envs", 0, 0), ("optimizer", 0))
        assert is_map or is_free or is_number or is_none or is_empty, path
