"""A trained policy as an ONNX model, for machines without PyTorch.

    inputs    each observation by its name [B, ...], previous_action [B, A], is_first [B] bool,
              state [B, K]
    outputs   action [B, ...] as the environment's `step` takes it, next_previous_action [B, A] and
              next_state [B, K], which are the next step's inputs

It acts like `TrainedPolicy` without sampling: the most likely action, no noise. At an episode's
first step `is_first` is true, and `previous_action` and `state` have no effect. K is
0 without memory; the model then has neither `state` nor `next_state`. The model's metadata holds
the same JSON text as a skill's file, under the key `rearrange`.

B: environments, one or more   A: action dimensions   K: state size
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rearrange.errors import UserError
from rearrange.skills.deployed.skill_files import FORMAT, SkillFile
from rearrange.skills.deployed.skill_header import header_json
from rearrange.skills.network.policy import SkillPolicy
from rearrange.ver.workers.spaces import ActionSpec

OPSET = 18
PREVIOUS_ACTION, IS_FIRST, STATE = "previous_action", "is_first", "state"
ACTION, NEXT_PREVIOUS_ACTION, NEXT_STATE = "action", "next_previous_action", "next_state"
_MOST_AT_ONCE = 256  # environments; for more, the network processes pictures in parts


def onnx_bytes(skill: SkillFile) -> bytes:
    """The model's file. Raises UserError if the exporter is not installed."""
    try:
        import onnx
        import onnxscript  # noqa: F401, torch's exporter needs it
    except ImportError as error:
        raise UserError(
            "format=onnx needs onnx and onnxscript: pip install 'rearrange[onnx]', in a checkout "
            "pip install -e '.[onnx]'"
        ) from error
    acting = _Acting(skill.build(), skill.action, list(skill.observation))
    inputs, names = _examples(skill, acting.policy.state_size)
    batch = torch.export.Dim("batch", min=1, max=_MOST_AT_ONCE)
    outputs = [ACTION, NEXT_PREVIOUS_ACTION, *([NEXT_STATE] if acting.policy.state_size else [])]
    with _in_silence():
        program = torch.onnx.export(
            acting, inputs, dynamo=True, verbose=False, opset_version=OPSET, input_names=names,
            output_names=outputs, dynamic_shapes={"inputs": tuple({0: batch} for _ in inputs)},
        )  # fmt: skip
    assert program is not None  # without `dynamo` there is none
    model = program.model_proto
    header = {"format": FORMAT} | header_json(skill) | {"origin": skill.origin}
    onnx.helper.set_model_props(model, {"rearrange": json.dumps(header, allow_nan=False)})
    onnx.checker.check_model(model)
    return model.SerializeToString()


class _Acting(nn.Module):
    """The policy's most likely action, without the parts only training needs."""

    low: Tensor
    span: Tensor
    bounded: Tensor
    least: Tensor
    most: Tensor

    def __init__(self, policy: SkillPolicy, action: ActionSpec, names: list[str]) -> None:
        super().__init__()
        self.policy, self.names, self.action = policy, names, action
        is_bounded = np.isfinite(action.low) & np.isfinite(action.high)
        low = np.where(is_bounded, action.low, -1.0)
        span = np.where(is_bounded, action.high, 1.0) - low
        for name, value in (("low", low), ("span", span), ("bounded", is_bounded)):
            self.register_buffer(name, torch.from_numpy(np.asarray(value)))
        self.register_buffer("least", torch.from_numpy(action.low.astype(np.float64)))
        self.register_buffer("most", torch.from_numpy(action.high.astype(np.float64)))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        observation = dict(zip(self.names, inputs, strict=False))
        previous_action, is_first, *states = inputs[len(self.names) :]
        state = states[0] if states else previous_action.new_zeros(is_first.shape[0], 0).float()
        step = self.policy.act(observation, previous_action, is_first, state, deterministic=True)
        outputs = (self.to_env(step.action), step.action)
        return (*outputs, step.state) if states else outputs

    def to_env(self, action: Tensor) -> Tensor:
        """`ActionSpec.to_env`, [B, A] -> [B, ...]."""
        spec = self.action
        if spec.kind == "discrete":
            whole = action + action.new_tensor(spec.start)
            return whole.reshape(action.shape[0], *spec.shape)
        action = action.double()
        scaled = self.low + 0.5 * (action.clamp(-1.0, 1.0) + 1.0) * self.span
        result = torch.where(self.bounded, scaled, action)
        result = torch.minimum(torch.maximum(result, self.least), self.most)
        if spec.env_dtype.kind in "iu":
            result = result.round()
        dtype = torch.from_numpy(np.zeros(1, spec.env_dtype)).dtype
        return result.to(dtype).reshape(action.shape[0], *spec.shape)


def _examples(skill: SkillFile, state_size: int) -> tuple[tuple[Tensor, ...], list[str]]:
    """Inputs of two environments, and their names."""
    size = 2  # with one environment the exporter would fix the batch size
    inputs = {
        name: torch.from_numpy(np.zeros((size, *spec.shape), spec.dtype))
        for name, spec in skill.observation.items()
    }
    inputs[PREVIOUS_ACTION] = torch.from_numpy(
        np.zeros((size, skill.action.size), skill.action.dtype)
    )
    inputs[IS_FIRST] = torch.ones(size, dtype=torch.bool)
    if state_size:
        inputs[STATE] = torch.zeros(size, state_size)
    return tuple(inputs.values()), list(inputs)


@contextmanager
def _in_silence() -> Iterator[None]:
    """Silences the exporter's internal messages."""
    before: Any = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
