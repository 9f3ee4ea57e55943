"""Vector environments of torch tensors, on any device, beside those of numpy arrays.

actions [N, A] --given--> tensors on the environment's device --> step --taken--> arrays
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


class TensorConversion:
    """Converts what one vector environment is given and what it returns.

    An environment is one of tensors if the observations of its first reset are. For others nothing
    is converted.

    Attributes:
        device: where the environment's tensors are; None: it has none.
    """

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self._is_known = False

    def notice(self, observations: Any) -> None:
        """Finds the device from the observations of a reset."""
        if not self._is_known:
            self.device = next((tensor.device for tensor in _tensors(observations)), None)
            self._is_known = True

    def given(self, array: np.ndarray) -> Any:
        """An array for the environment."""
        return array if self.device is None else torch.as_tensor(array, device=self.device)

    def taken(self, batch: Any) -> Any:
        """The same structure of dicts and tuples, with arrays for tensors; infos are not for it."""
        return batch if self.device is None else to_arrays(batch)


def to_arrays(batch: Any) -> Any:
    """A structure of dicts, tuples and lists with numpy arrays in place of tensors."""
    if isinstance(batch, Tensor):
        tensor = batch.detach().cpu()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    if isinstance(batch, Mapping):
        return {name: to_arrays(part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return tuple(to_arrays(part) for part in batch)
    return batch


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping | tuple | list):
        for part in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _tensors(part)
