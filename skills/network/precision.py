"""The number format in which the encoder is fastest on a device of this machine.

A CPU with bfloat16 instructions takes a third of float32's time. One without emulates them, in
eight times float32's time (measured on AVX2: 17.5 against 2.2 ms a picture, both passes).
"""

from __future__ import annotations

import torch

PRECISIONS: dict[str, torch.dtype | None] = {
    "float32": torch.float32, "bfloat16": torch.bfloat16, "auto": None,
}  # fmt: skip
"""Names in settings; None: `fastest_dtype`."""


def fastest_dtype(device: str | None = None) -> torch.dtype:
    """bfloat16 where the device has instructions for it, else float32.

    Args:
        device: "cpu" or "cuda"; None: a GPU if there is one.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        is_native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        is_native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if is_native else torch.float32


def dtype_of(precision: str) -> torch.dtype:
    """The dtype of a setting of `PRECISIONS` on this machine."""
    return PRECISIONS[precision] or fastest_dtype()


def name_on(precision: str, device: str) -> str:
    """The setting with `auto` replaced by what is fastest on "cpu" or "cuda"."""
    return str(PRECISIONS[precision] or fastest_dtype(device)).removeprefix("torch.")
