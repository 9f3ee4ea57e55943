"""Messages between the two Pythons, as JSON: no pickle, so their versions may differ.

spaces  layout of the slots  WorkerCfg
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from rearrange.ver.workers.environment_worker import WorkerCfg
from rearrange.ver.workers.shared_memory import SlotLayout
from rearrange.ver.workers.spaces import ActionSpec, ArraySpec, ObservationSpec

Json = dict[str, Any]


def spaces_to_json(observation: ObservationSpec, action: ActionSpec) -> Json:
    """Numbers that JSON cannot express, such as infinite bounds, are written as text."""
    return {
        "observation": [
            [name, list(spec.shape), spec.dtype.str] for name, spec in observation.items()
        ],
        "action": {
            "kind": action.kind,
            "size": action.size,
            "num_choices": list(action.num_choices),
            "low": [repr(float(bound)) for bound in action.low],
            "high": [repr(float(bound)) for bound in action.high],
            "start": list(action.start),
            "shape": list(action.shape),
            "env_dtype": action.env_dtype.str,
        },
    }


def spaces_from_json(value: Json) -> tuple[ObservationSpec, ActionSpec]:
    observation = {
        name: ArraySpec(tuple(shape), np.dtype(dtype))
        for name, shape, dtype in value["observation"]
    }
    parts = dict(value["action"])
    for name in ("num_choices", "start", "shape"):
        parts[name] = tuple(parts[name])
    for name in ("low", "high"):
        parts[name] = np.array([float(bound) for bound in parts[name]], np.float64)
    parts["env_dtype"] = np.dtype(parts["env_dtype"])
    return observation, ActionSpec(**parts)


def layout_to_json(layout: SlotLayout) -> Json:
    spaces = spaces_to_json(layout.observation, layout.action)
    return spaces | {"num_envs": layout.num_envs, "num_infos": layout.num_infos}


def layout_from_json(value: Json) -> SlotLayout:
    observation, action = spaces_from_json(value)
    return SlotLayout(value["num_envs"], observation, action, value["num_infos"])


def cfg_to_json(cfg: WorkerCfg) -> Json:
    """Seeds are stored as pairs: keys of a JSON object are text."""
    failed_resets = [[seed, count] for seed, count in cfg.failed_resets.items()]
    return asdict(replace(cfg, failed_resets={})) | {"failed_resets": failed_resets}


def cfg_from_json(value: Json) -> WorkerCfg:
    parts: dict[str, Any] = {
        "info_keys": tuple(value["info_keys"]),
        "offsets": tuple(value["offsets"]),
        "failed_resets": dict(value["failed_resets"]),
    }
    return WorkerCfg(**{**value, **parts})
