"""Solids as a binary glTF 2.0 file (.glb), y up, one mesh and one node a solid.

    header | JSON: nodes, meshes, materials, where in the binary each array lies | binary

Format: Khronos Group, glTF 2.0 specification, sections 3 and 4.4. A convex mesh each is what Bullet
makes an exact compound of (`join_collision_meshes: false`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from rearrange.habitat.axes import points_to_habitat
from rearrange.habitat.solids import Solid

_MAGIC, _VERSION, _JSON, _BINARY = 0x46546C67, 2, 0x4E4F534A, 0x004E4942
_FLOAT, _UNSIGNED_SHORT = 5126, 5123
_VERTICES, _INDICES = 34962, 34963  # what a buffer view is for


def glb_bytes(solids: Sequence[Solid]) -> bytes:
    """The file's content; the same bytes for the same solids.

    Raises ValueError for a solid with more vertices than 16 bits count.
    """
    colours = list(dict.fromkeys(solid.rgb for solid in solids))
    file: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "rearrange"},
        "scene": 0,
        "scenes": [{"nodes": list(range(len(solids)))}],
        "nodes": [{"mesh": i, "name": f"part_{i:02d}"} for i in range(len(solids))],
        "meshes": [],
        "materials": [
            {"pbrMetallicRoughness": {"baseColorFactor": [*map(float, rgb), 1.0],
                                      "metallicFactor": 0.0, "roughnessFactor": 0.9}}
            for rgb in colours
        ],
        "accessors": [],
        "bufferViews": [],
    }  # fmt: skip
    binary = bytearray()
    for i, solid in enumerate(solids):
        if len(solid.vertices) > 2**16:
            raise ValueError(f"a solid may have 65536 vertices, got {len(solid.vertices)}")
        positions = points_to_habitat(solid.vertices).astype("<f4")
        arrays = (
            _add(file, binary, positions, "VEC3", _FLOAT, _VERTICES),
            _add(file, binary, points_to_habitat(solid.normals).astype("<f4"), "VEC3", _FLOAT,
                 _VERTICES),
            _add(file, binary, solid.triangles.astype("<u2").ravel(), "SCALAR", _UNSIGNED_SHORT,
                 _INDICES),
        )  # fmt: skip
        accessor = file["accessors"][arrays[0]]
        accessor["min"] = [float(v) for v in positions.min(axis=0)]
        accessor["max"] = [float(v) for v in positions.max(axis=0)]
        primitive = {
            "attributes": {"POSITION": arrays[0], "NORMAL": arrays[1]},
            "indices": arrays[2],
            "material": colours.index(solid.rgb),
        }
        file["meshes"].append({"name": f"part_{i:02d}", "primitives": [primitive]})
    file["buffers"] = [{"byteLength": len(binary)}]
    text = json.dumps(file, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), _JSON) + text
    chunks += struct.pack("<II", len(binary), _BINARY) + bytes(binary)
    return struct.pack("<III", _MAGIC, _VERSION, 12 + len(chunks)) + chunks


def _add(file: dict[str, Any], binary: bytearray, array, shape: str, kind: int, use: int) -> int:
    """Appends an array to the binary; the number of its accessor."""
    content = array.tobytes()
    view = {"buffer": 0, "byteOffset": len(binary), "byteLength": len(content), "target": use}
    binary += content + b"\0" * (-len(content) % 4)
    file["bufferViews"].append(view)
    accessor = {"bufferView": len(file["bufferViews"]) - 1, "componentType": kind,
                "count": len(array), "type": shape}  # fmt: skip
    file["accessors"].append(accessor)
    return len(file["accessors"]) - 1
