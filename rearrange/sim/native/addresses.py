"""Calls, numbers and arrays by address, in compiled kernels.

    Python: table of addresses [.] int64, made once  -->  kernel: floats(table[QPOS], count)

A kernel that is given one table instead of twenty arrays is called in a microsecond, and can do
many worlds in one call, without the interpreter's lock. Addresses are plain numbers, so that
compiled kernels can be kept on disk. Whoever makes a table keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, njit, types
from numba.np.numpy_support import carray

_intrinsic: Any = extending.intrinsic  # who calls one leaves out its first parameter
_POINTER, _INT, _VOID = ir.IntType(8).as_pointer(), ir.IntType(32), ir.VoidType()
_LONG = ir.IntType(64)


def address_of(array: np.ndarray) -> int:
    """Where the array's first number lies. Raises ValueError for one with gaps."""
    if not array.flags.c_contiguous:
        raise ValueError("only a C-contiguous array can be passed by its address")
    return int(array.__array_interface__["data"][0])


class Table:
    """What a kernel is given: numbers and addresses, for as long as `owner` is who they belong to.

    A copy, of another process too, is empty and belongs to nobody: addresses are of one object.
    """

    def __init__(self, size: int) -> None:
        self.values = np.zeros(size, np.int64)
        self.address = address_of(self.values)
        self.alone = np.array([self.address])
        """[1], for a kernel that takes several tables."""
        self.owner: object = None

    def __reduce__(self) -> tuple[type[Table], tuple[int]]:
        return Table, (len(self.values),)


def _caller(*arguments: Any) -> Any:
    """An intrinsic: call(function, argument, ...) of whole numbers, which returns nothing."""
    signature = types.void(*[types.int64] * (1 + len(arguments)))

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(_VOID, arguments).as_pointer()
        given = [
            builder.inttoptr(value, one) if one is _POINTER else builder.trunc(value, one)
            for value, one in zip(values[1:], arguments, strict=True)
        ]
        builder.call(builder.inttoptr(values[0], kind), given)
        return context.get_dummy_value()

    return signature, generate


def _reader(c_type: Any, result: Any) -> Any:
    """An intrinsic: read(address), the number there."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        value = builder.load(builder.inttoptr(values[0], c_type.as_pointer()))
        return builder.sext(value, _LONG) if c_type is _INT else value

    return result(types.int64), generate


@_intrinsic
def call_world(_context, function, model, data):
    """Calls a MuJoCo function of (model, data)."""
    return _caller(_POINTER, _POINTER)


@_intrinsic
def call_velocity(_context, function, model, data, kind, number, out, is_local):
    """Calls `mj_objectVelocity`; `out` is the address of six numbers."""
    return _caller(_POINTER, _POINTER, _INT, _INT, _POINTER, _INT)


@_intrinsic
def call_force(_context, function, model, data, number, out):
    """Calls `mj_contactForce`; `out` is the address of six numbers."""
    return _caller(_POINTER, _POINTER, _INT, _POINTER)


@_intrinsic
def call_number(_context, function, number):
    """Calls a C function of one int."""
    return _caller(_INT)


@_intrinsic
def int32_at(_context, address):
    """The C int at an address."""
    return _reader(_INT, types.int64)


@_intrinsic
def int64_at(_context, address):
    """The 64-bit number, or pointer, at an address."""
    return _reader(_LONG, types.int64)


@_intrinsic
def float64_at(_context, address):
    """The double at an address."""
    return _reader(ir.DoubleType(), types.float64)


@_intrinsic
def load(_context, address):
    """The 64-bit number at an address that other threads write to."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(values[0], _LONG.as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@_intrinsic
def store(_context, address, value):
    """Writes a 64-bit number: who loads it also sees what this thread wrote before."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], _LONG.as_pointer())
        builder.store_atomic(values[1], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic
def swap(_context, address, old, new):
    """Writes the new 64-bit number where the old one stands; returns what stood there."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], _LONG.as_pointer())
        both = builder.cmpxchg(pointer, values[1], values[2], "seq_cst", "seq_cst")
        return builder.extract_value(both, 0)

    return types.int64(types.int64, types.int64, types.int64), generate


@_intrinsic
def _pointer(_context, address):
    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], _POINTER)

    return types.voidptr(types.int64), generate


@njit(cache=True, nogil=True)
def wholes(address, count):
    """[count] int64 at an address."""
    return carray(_pointer(address), (count,), np.int64)


@njit(cache=True, nogil=True)
def ints(address, count):
    """[count] int32."""
    return carray(_pointer(address), (count,), np.int32)


@njit(cache=True, nogil=True)
def int_rows(address, rows, columns):
    """[rows, columns] int32."""
    return carray(_pointer(address), (rows, columns), np.int32)


@njit(cache=True, nogil=True)
def bytes_at(address, count):
    """[count] uint8; also of what is bool in NumPy."""
    return carray(_pointer(address), (count,), np.uint8)


@njit(cache=True, nogil=True)
def floats(address, count):
    """[count] float64."""
    return carray(_pointer(address), (count,), np.float64)


@njit(cache=True, nogil=True)
def float_rows(address, rows, columns):
    """[rows, columns] float64."""
    return carray(_pointer(address), (rows, columns), np.float64)


@njit(cache=True, nogil=True)
def pixels(address, rows, columns):
    """[rows, columns] float32."""
    return carray(_pointer(address), (rows, columns), np.float32)
