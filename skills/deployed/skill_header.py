"""The header of a skill file or checkpoint; each field is checked before use.

    {"env": "rearrange/Pick-v0", "env_kwargs": {...}, "policy": {...}, ...}  -->  SkillHeader

The spaces in a file are not trusted: they must equal those of the environment, made with the
checked options. No name in a file imports anything.
"""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

import numpy as np
import torch
from torch import Tensor

from rearrange.errors import UserError
from rearrange.renamed_settings import with_current_names
from rearrange.skills.network.pictures.encoder import EncoderCfg
from rearrange.skills.network.policy import draft_policy
from rearrange.skills.network.policy_cfg import PolicyCfg, policy_json
from rearrange.system.checked_json import Node, quoted
from rearrange.tasks.env_options import recorded_options, to_record
from rearrange.tasks.gym_factory import read_spaces, registered_id
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.ver.workers.spaces import (
    ActionSpec,
    ArraySpec,
    ObservationSpec,
    action_spec,
    observation_spec,
)

OWN_CHOICES = ("name", "precision", "compile")  # how a policy is computed is up to the reader
MOST_STEPS = 2**53
LARGEST_OPTION = 1e6  # for environments without bounds of their own
_WORD = re.compile(r"[\w-]{1,64}", re.ASCII)
WEIGHT_TYPES = (torch.float16, torch.float32, torch.float64, torch.int64, torch.bool)


@dataclass
class SkillHeader:
    env_id: str
    env_kwargs: dict[str, Any]
    policy_cfg: PolicyCfg
    observation: ObservationSpec
    action: ActionSpec


def check_header(node: Node) -> SkillHeader:
    """The fields env, env_kwargs and policy, and the spaces that follow from them.

    Raises UserError for an environment that is not registered, or a value that is out of range.
    """
    named = node["env"].text()
    env_id = registered_id(named)
    if env_id is None:
        raise UserError(
            f"{node.where}env {quoted(named)} is not registered, and no name in a file imports a "
            "module: name yours as env=module:ID, or from Python import it first"
        )
    if env_id in TASK_OF_ID:
        env_kwargs = recorded_options(env_id, node["env_kwargs"].value, node.where)
    else:
        env_kwargs = {name: _plain(value) for name, value in node["env_kwargs"].items()}
    cfg = read_policy_cfg(node["policy"])
    spaces = read_spaces(env_id, env_kwargs)
    return SkillHeader(env_id, env_kwargs, cfg, observation_spec(spaces[0]), action_spec(spaces[1]))


def header_json(header: SkillHeader) -> dict[str, Any]:
    """The counterpart of `check_header`, and the spaces for `check_spaces`."""
    action, policy = header.action, policy_json(header.policy_cfg)
    return {
        "env": header.env_id,
        "env_kwargs": to_record(header.env_id, header.env_kwargs),
        "policy": {name: value for name, value in policy.items() if name != "name"},
        "observation": {
            name: [list(spec.shape), spec.dtype.name] for name, spec in header.observation.items()
        },
        "action": {"kind": action.kind, "low": _bounds(action.low), "high": _bounds(action.high)},
    }


def _bounds(values: np.ndarray) -> list[float | None]:
    """As JSON has them: null for none."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def check_spaces(node: Node, header: SkillHeader) -> None:
    """Checks that the file's spaces are those of the environment, and adopts their order.

    The policy needs its inputs in the order of its training.
    """
    known = {name: [list(s.shape), s.dtype.name] for name, s in header.observation.items()}
    observation: dict[str, ArraySpec] = {}
    for name, spec in node["observation"].items():
        if name not in known or spec.value != known[name]:
            spec.fail(f"be {quoted(str(known.get(name, 'absent')))}", quoted(str(spec.value)))
        observation[name] = header.observation[name]
    if missing := sorted(known.keys() - observation.keys()):
        raise UserError(f"{node.where}observation.{missing[0]} is missing")
    node["action"]["kind"].equal(header.action.kind)
    for name in ("low", "high"):
        own = _bounds(getattr(header.action, name))
        given = node["action"][name].list(len(own), len(own))
        if [one.value if one.value is None else one.number() for one in given] != own:
            node["action"][name].fail("be the bounds of the environment's actions", "others")
    header.observation = observation


def read_policy_cfg(node: Node) -> PolicyCfg:
    """The network's settings, checked for type and range."""
    current = Node(with_current_names(node.value, "policy."), node.where, node.path)
    values = _of_fields(PolicyCfg, current, OWN_CHOICES)
    values["encoder"] = _made(EncoderCfg, _of_fields(EncoderCfg, node["encoder"]), node)
    return _made(PolicyCfg, values, node)


def check_weights(weights: dict[str, Tensor], header: SkillHeader, where: str) -> None:
    """Checks that the weights fit the header's network and are finite.

    They are compared with a draft of the network: a file could ask for any size.
    """
    try:
        draft = draft_policy(header.observation, header.action, header.policy_cfg)
    except (ValueError, RuntimeError) as error:  # incompatible sizes
        raise UserError(f"{where}policy: {error}") from error
    own = draft.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    for name in [*shapes, *weights]:
        if name not in weights or name not in shapes:
            what = "missing" if name in shapes else "one too many"
            raise UserError(f"{where}weights {quoted(name)} are {what}")
        if tuple(weights[name].shape) != shapes[name]:
            came = f"{tuple(weights[name].shape)} instead of {shapes[name]}"
            raise UserError(f"{where}weights {quoted(name)} have the shape {came}")
        kind, kept = weights[name].dtype, own[name].dtype
        if kind != kept and not (kind == torch.float16 and kept == torch.float32):
            raise UserError(f"{where}weights {quoted(name)} are of type {kind} instead of {kept}")
    check_numbers(weights, where)


def check_numbers(weights: dict[str, Tensor], where: str) -> None:
    """Raises UserError for weights of an unsupported type or with non-finite numbers."""
    for name, tensor in weights.items():
        if tensor.dtype not in WEIGHT_TYPES:
            raise UserError(f"{where}weights {quoted(name)} are of type {tensor.dtype}")
        if not tensor.isfinite().all():
            raise UserError(f"{where}weights {quoted(name)} hold a number that is not finite")


def _of_fields(cls: type, node: Node, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a dataclass's fields, checked for their types."""
    kinds = get_type_hints(cls)
    values = {}
    for name, value in node.items():
        if name in left_out or name == "encoder":
            continue
        if name not in kinds:
            value.fail("be no setting: there is none of that name", quoted(name))
        values[name] = _READERS[str(kinds[name])](value)
    for field in fields(cls):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        if is_needed and field.name not in values:
            node[field.name]  # raises: it is missing
    return values


def _plain(node: Node) -> Any:
    """An option of a third-party environment: a moderate number or a short word.

    No paths, and nothing that could be a module's name.
    """
    value = node.value
    if isinstance(value, str):
        if not _WORD.fullmatch(value):
            node.fail("be a word, with no path or module in it")
    elif isinstance(value, list):
        return [_plain(element) for element in node.list(_MOST_NUMBERS)]
    elif value is not None and not isinstance(value, bool):
        node.number(-LARGEST_OPTION, LARGEST_OPTION)
    return value


def _made(cls: type, values: dict[str, Any], node: Node) -> Any:
    try:
        return cls(**values)
    except ValueError as error:
        raise UserError(f"{node.where}{node.path}: {error}") from error


_MOST_NUMBERS = 64  # in a list of sizes
_READERS = {
    str(int): lambda node: node.integer(-(2**31), 2**31),
    str(float): lambda node: node.number(),
    str(bool): lambda node: node.boolean(),
    str(str): lambda node: node.text(),
    str(list[int]): lambda node: [n.integer(0, 2**31) for n in node.list(_MOST_NUMBERS)],
    str(list[float]): lambda node: [n.number() for n in node.list(_MOST_NUMBERS)],
}
