"""What numba compiles gives the same numbers on every processor, new or from the cache."""

import importlib
import re
from pathlib import Path

import numba
import pytest
from numba.core.dispatcher import Dispatcher

from rearrange.sim.robot.depth_kernel import SAME_EVERYWHERE

ROOT = Path(__file__).parents[2]
HARMLESS = {"nnan", "ninf", "nsz"}  # of LLVM's flags; the others change how results are rounded


def modules():
    for folder, package in (("rearrange", "rearrange"), ("skills", "rearrange.skills")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if re.search(r"@njit|@numba", path.read_text()):
                inside = path.relative_to(ROOT / folder).with_suffix("").parts
                yield ".".join((package, *inside))


@pytest.mark.parametrize("name", modules())
def test_no_kernel_lets_the_compiler_choose_how_to_round(name):
    kernels = [f for f in vars(importlib.import_module(name)).values() if isinstance(f, Dispatcher)]
    assert kernels
    for kernel in kernels:
        flags = kernel.targetoptions.get("fastmath", False)
        assert not flags or (flags is not True and set(flags) <= HARMLESS), kernel.__name__
        assert not kernel.targetoptions.get("parallel")


def test_a_product_and_a_sum_are_rounded_one_after_the_other():
    def residue(a, b, c):
        return a * b + c

    a = 1.0 + 2.0**-30  # its square has more digits than fit: fused, the rest would come out
    assert numba.njit(residue, fastmath=SAME_EVERYWHERE)(a, a, -(a * a)) == 0.0
