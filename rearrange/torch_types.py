"""Functions of torch with the types that torch does not tell, the same functions otherwise.

Strict checking would complain at each of their uses; here it does so once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor

# torch says nothing of these functions' arguments.
from_numpy = cast("Callable[[np.ndarray], Tensor]", torch.from_numpy)
manual_seed = cast("Callable[[int], torch.Generator]", torch.manual_seed)


def floats(numbers: Tensor) -> list[float]:
    """`tolist` of floating-point numbers, [n]."""
    return cast("list[float]", numbers.tolist())
