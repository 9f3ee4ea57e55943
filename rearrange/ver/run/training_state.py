"""Training state beside the weights: the optimiser's moments and the random generators.

Each is saved as tensors and JSON values and restored bit for bit: a training that was stopped takes
the same steps as one that was not.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from rearrange.errors import UserError
from rearrange.system.checked_json import is_list, is_object, quoted

MOST = 1e9  # of a learning rate and the like
# How a step is computed, not its result: these follow the restoring process's device.
OWN_SETTINGS = ("params", "foreach", "fused", "capturable", "differentiable")


def flatten_optimizer(optimizer: Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The state of Adam or a similar optimiser.

    Returns:
        Tensors named `<parameter number>/<moment>`, and the settings of each parameter group as
        JSON-able values.

    Raises:
        ValueError: if a setting is neither a number, a truth value nor a tuple of numbers.
    """
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    for number, values in state["state"].items():
        for name, value in values.items():
            if not isinstance(value, Tensor):
                raise ValueError(f"optimiser state {name} must be a tensor, got {type(value)}")
            tensors[f"{number}/{name}"] = value
    groups: list[dict[str, Any]] = []
    for group in state["param_groups"]:
        settings = {name: value for name, value in group.items() if name not in OWN_SETTINGS}
        for name, value in settings.items():
            parts = value if _is_tuple(value) else (value,)
            if not all(part is None or isinstance(part, bool | int | float) for part in parts):
                raise ValueError(f"optimiser setting {name} must be a number, got {value!r}")
        groups.append(settings | {"num_parameters": len(group["params"])})
    return tensors, groups


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor], groups: object) -> None:
    """Restores an optimiser from `flatten_optimizer`; groups may have been through JSON.

    Raises:
        UserError: if it belongs to other parameters, or a setting is of another kind; the optimiser
            is then unchanged.
    """
    own = optimizer.state_dict()["param_groups"]
    counts = [len(group["params"]) for group in own]
    if not is_list(groups) or not all(is_object(group) for group in groups):
        raise UserError("the optimiser's groups in the checkpoint are damaged")
    stored = [group.get("num_parameters") for group in groups]
    if stored != counts:
        raise UserError(f"the checkpoint's optimiser has {stored} parameters, here it is {counts}")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition("/")
        if not number.isdecimal() or int(number) >= len(parameters):
            raise UserError(f"the checkpoint's optimiser state '{key}' belongs to no parameter")
        shape = tuple(parameters[int(number)].shape)
        if name != "step" and tuple(value.shape) != shape:
            got = tuple(value.shape)
            raise UserError(
                f"the checkpoint's optimiser state '{key}' has shape {got}, not {shape}"
            )
        if name == "step":
            kept = value.clone()
        else:  # fused kernels take it that moments lie in memory as their parameter does
            like = parameters[int(number)]
            kept = torch.empty_like(like, dtype=value.dtype, device=value.device).copy_(value)
        state.setdefault(int(number), {})[name] = kept
    restored: list[dict[str, Any]] = []
    for group, mine in zip(groups, own, strict=True):
        settings: dict[str, Any] = {}
        for name, value in mine.items():
            if name not in OWN_SETTINGS:
                if name not in group:
                    raise UserError(f"the checkpoint's optimiser has no setting '{name}'")
                if not _is_like(group[name], value):
                    raise UserError(
                        f"the checkpoint's optimiser has {name}={quoted(group[name])}, where such "
                        f"as {value} has to stand"
                    )
                value = tuple(group[name]) if isinstance(group[name], list) else group[name]
            settings[name] = value
        restored.append(settings)
    optimizer.load_state_dict({"state": state, "param_groups": restored})


def _is_like(value: Any, own: Any, least: float = -MOST, most: float = MOST) -> bool:
    """Whether a setting has the type of the optimiser's own, and its numbers are in range.

    Adam takes powers of its betas, a tuple, which must not diverge.
    """
    if _is_tuple(own):
        if not (_is_tuple(value) or is_list(value)) or len(value) != len(own):
            return False
        return all(_is_like(*pair, 0.0, 1.0) for pair in zip(value, own, strict=True))
    if isinstance(own, bool):
        return isinstance(value, bool)
    if own is None:
        return value is None or isinstance(value, bool)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and least <= value <= most


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def torch_random_states(device: torch.device) -> dict[str, Tensor]:
    """States of torch's own generators as uint8 [n]: the CPU's, and the device's if it has one."""
    states = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_torch_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restores the result of `torch_random_states`; a device it does not cover keeps its state.

    Raises:
        UserError: if a state does not fit such a generator.
    """
    try:
        torch.set_rng_state(states["torch"])
        if device.type == "cuda" and "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"], device)
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the checkpoint's random state does not fit: {reason}") from error


def numpy_random_state(rng: np.random.Generator) -> dict[str, Any]:
    """State of a numpy generator as a JSON-able value; its integers may have 128 bits."""

    def plain(value: Any) -> Any:
        if is_object(value):
            return {name: plain(part) for name, part in value.items()}
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

    return plain(rng.bit_generator.state)


def restore_numpy_random_state(state: dict[str, Any], rng: np.random.Generator) -> None:
    """Restores the result of `numpy_random_state`.

    Raises:
        UserError: if the state does not fit such a generator.
    """
    try:
        rng.bit_generator.state = state
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise UserError(f"the checkpoint's random state does not fit: {error}") from error
