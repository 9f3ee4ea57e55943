"""Adam without the compiler that PyTorch loads for it, which takes as long as PyTorch itself.

Each new optimiser, and each first step of one, imports `torch._dynamo` (1.2 to 1.4 s, a quarter of
the time in which a training starts) only to tell it to leave the function alone. `functools.wraps`
says what is underneath; where it does not, the optimiser is PyTorch's as it is.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch


def _bare(name: str) -> Any:
    return inspect.unwrap(getattr(torch.optim.Adam, name))


class Adam(torch.optim.Adam):
    """`torch.optim.Adam`, the same numbers, for what is not compiled: `step` takes no closure."""

    add_param_group: Any = _bare("add_param_group")
    zero_grad: Any = _bare("zero_grad")
    state_dict: Any = _bare("state_dict")
    load_state_dict: Any = _bare("load_state_dict")
    step: Any = torch.no_grad()(_bare("step"))
