"""MuJoCo's own functions and fields for compiled kernels, without Python between two of them.

    MuJoCo's library --ctypes--> addresses of functions
    MuJoCo's description of its structs (`mujoco.introspect`) --ctypes--> places of fields

The binding takes as long for a call as some of its functions run, and returns to Python after each.
Where a field lies is checked against what the binding says; `native()` is None where anything
differs or is missing: all else then works as before, slower.
"""

from __future__ import annotations

import ctypes
import logging
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import mujoco

log = logging.getLogger(__name__)
_NAMES = {
    "mjtNum": ctypes.c_double, "double": ctypes.c_double, "float": ctypes.c_float,
    "int": ctypes.c_int, "mjtSize": ctypes.c_int64, "size_t": ctypes.c_size_t,
    "uintptr_t": ctypes.c_void_p, "mjtBool": ctypes.c_bool, "mjtByte": ctypes.c_ubyte,
    "uint64_t": ctypes.c_uint64,
}  # fmt: skip


class Native(NamedTuple):
    """Addresses of functions in this process, and offsets of fields in bytes."""

    mj_step: int
    mj_objectVelocity: int
    mj_contactForce: int
    mj_kinematics: int
    mj_camlight: int
    ncon: int
    nefc: int
    time: int
    contact: int
    """Of the pointer to the contacts."""
    contact_size: int
    """Of one contact."""
    contact_geom: int
    """Of the two geoms within a contact."""
    timestep: int
    """Of the model's."""
    warning: int
    """Of the number of the first kind of warning."""
    warning_size: int
    """From one kind to the next."""
    num_warnings: int
    """Kinds."""


FUNCTIONS = Native._fields[:5]


@lru_cache(maxsize=1)
def native() -> Native | None:
    """What kernels call and read; None, and why is logged, where MuJoCo is not as described."""
    try:
        found = _find()
        _check(found)
    except Exception as error:  # whatever a MuJoCo of another version lacks
        log.warning("physics steps are called one by one, which is slower: %s", error)
        return None
    return found


def _find() -> Native:
    library = _library()
    addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in FUNCTIONS]
    data, contact, warning = (_struct(name) for name in ("mjData", "mjContact", "mjWarningStat"))
    model, option = _struct("mjModel"), _struct("mjOption")
    return Native(
        **{name: value or 0 for name, value in zip(FUNCTIONS, addresses, strict=True)},
        **{name: getattr(data, name).offset for name in ("ncon", "nefc", "time", "contact")},
        contact_size=ctypes.sizeof(contact),
        contact_geom=contact.geom.offset,
        timestep=model.opt.offset + option.timestep.offset,
        warning=data.warning.offset + warning.number.offset,
        warning_size=ctypes.sizeof(warning),
        num_warnings=data.warning.size // ctypes.sizeof(warning),
    )


def _library() -> ctypes.CDLL:
    """The library that the binding has loaded: its file, opened again, is the same one."""
    folder = Path(mujoco.__file__).parent
    files = [*folder.glob("libmujoco.*"), *folder.glob("mujoco.dll")]
    if len(files) != 1:
        raise RuntimeError(f"there must be one MuJoCo library in {folder}, found {len(files)}")
    return ctypes.CDLL(str(files[0]))


def _struct(name: str) -> Any:
    """A ctypes structure laid out as MuJoCo describes it."""
    from mujoco.introspect.structs import STRUCTS

    described: Any = STRUCTS[name].fields
    fields = [(field.name, _c_type(field.type)) for field in described]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _c_type(kind: Any) -> Any:
    if hasattr(kind, "extents"):
        result = _c_type(kind.inner_type)
        for extent in reversed(kind.extents):
            result *= extent
        return result
    if not hasattr(kind, "name"):  # a pointer, to whatever
        return ctypes.c_void_p
    if kind.name in _NAMES:
        return _NAMES[kind.name]
    return _struct(kind.name) if not kind.name.startswith("mjt") else ctypes.c_int  # an enum


def _check(found: Native) -> None:
    """Raises RuntimeError unless fields are where the binding finds them: a ball on the floor."""
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='plane' size='1 1 1'/><geom type='plane' size='1 1 1'/>"
        "<body pos='0 0 .09'><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    for _ in range(3):
        mujoco.mj_step(model, data)
    kinds = range(found.num_warnings)
    for i in kinds:
        data.warning[i].number = i + 1
    address = data._address
    geoms = data.contact.geom
    first = ctypes.c_uint64.from_address(address + found.contact).value
    seen = (
        ctypes.c_int.from_address(address + found.ncon).value,
        ctypes.c_int.from_address(address + found.nefc).value,
        ctypes.c_double.from_address(address + found.time).value,
        ctypes.c_double.from_address(model._address + found.timestep).value,
        [
            ctypes.c_int.from_address(
                first + i * found.contact_size + found.contact_geom + 4 * k
            ).value
            for i in range(data.ncon)
            for k in range(2)
        ],
        [
            ctypes.c_int.from_address(address + found.warning + i * found.warning_size).value
            for i in kinds
        ],
    )
    expected = (
        data.ncon, data.nefc, data.time, model.opt.timestep, geoms.ravel().tolist(),
        data.warning.number.tolist(),
    )  # fmt: skip
    if seen != expected or data.ncon != 2 or not data.nefc:
        raise RuntimeError(f"MuJoCo's fields should hold {expected}, but hold {seen}")
