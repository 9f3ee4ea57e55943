"""Compares a checkpoint with what is about to load it, and names the first difference."""

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from rearrange.errors import UserError
from rearrange.renamed_settings import with_current_names
from rearrange.system.checked_json import is_object
from rearrange.ver.run.checkpoint import Checkpoint, shown


def check_matches(checkpoint: Checkpoint, expected: Mapping[str, Any]) -> None:
    """Checks that a checkpoint fits what is about to load it.

    Args:
        expected: what the manifest must contain, in order of importance, such as skill, env,
            policy; values may be nested. `tensors` maps the names of the tensors to their shapes
            (see `shapes_of`), all of them for each prefix that occurs in it.

    Raises:
        UserError: naming the first difference.
    """
    for name, value in expected.items():
        if name == "tensors":
            difference = _first_shape_difference(checkpoint.tensors, value)
        elif name not in checkpoint.manifest:
            difference = f"it does not say its {name}, here it is {shown(value)}"
        else:
            value = json.loads(json.dumps(value))
            got = with_current_names(checkpoint.manifest[name])
            difference = _first_difference(name, got, value)
        if difference:
            raise UserError(f"checkpoint {checkpoint.path} does not fit: {difference}")


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, list[int]]:
    """Name -> shape, for `check_matches`."""
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def _first_difference(name: str, got: Any, expected: Any) -> str | None:
    """The first place, by its dotted name, in which two JSON values differ."""
    if is_object(got) and is_object(expected):
        for key in [*expected, *(key for key in got if key not in expected)]:
            if key not in got:
                return f"it has no {name}.{key}, here it is {shown(expected[key])}"
            if key not in expected:
                return f"its {name}.{key} is {shown(got[key])}, here there is none"
            difference = _first_difference(f"{name}.{key}", got[key], expected[key])
            if difference:
                return difference
        return None
    if got == expected and isinstance(got, bool) == isinstance(expected, bool):
        return None
    return f"its {name} is {shown(got)}, here it is {shown(expected)}"


def _first_shape_difference(tensors: Mapping[str, Tensor], shapes: Mapping[str, Any]) -> str | None:
    for name, shape in shapes.items():
        if name not in tensors:
            return f"it has no tensor {name}, here it is of shape {_shape(shape)}"
        if list(tensors[name].shape) != list(shape):
            got = _shape(tensors[name].shape)
            return f"its tensor {name} is of shape {got}, here it is {_shape(shape)}"
    prefixes = {name.split("/")[0] for name in shapes}
    for name, tensor in tensors.items():
        if name.split("/")[0] in prefixes and name not in shapes:
            return f"its tensor {name} of shape {_shape(tensor.shape)} does not exist here"
    return None


def _shape(shape: Any) -> str:
    return "x".join(map(str, shape)) or "()"
