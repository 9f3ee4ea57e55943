"""Trained skills as single files: safetensors, with all that is needed to run them in the header.

    training run  -- skill_of_run, write_skill -->  pick.safetensors  -- read_skill -->  SkillFile

Weights are stored in half precision. The header's metadata holds one JSON text: the environment
and its settings, the spaces, the network's sizes, where the weights come from, and a checksum over
them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rearrange.checked_json import strict_json
from rearrange.errors import UserError
from rearrange.files import write_whole_file
from rearrange.skills.encoder import EncoderCfg
from rearrange.skills.policy import PolicyCfg, SkillPolicy, build_policy
from rearrange.tasks.gym_factory import read_spaces
from rearrange.ver.checkpoint import below_prefix, load_newest
from rearrange.ver.spaces import (
    ActionSpec,
    ArraySpec,
    ObservationSpec,
    action_spec,
    observation_spec,
)

FORMAT = "rearrange skill 1"
SUFFIX = ".safetensors"


@dataclass
class SkillFile:
    """A trained skill.

    Attributes:
        env_kwargs: what its environment was made with, `camera_size` among it.
        origin: where it comes from: steps, mode, seed and so on.
        source: what it was read from, for messages.
    """

    env_id: str
    env_kwargs: dict[str, Any]
    policy_cfg: PolicyCfg
    observation: ObservationSpec
    action: ActionSpec
    weights: dict[str, Tensor]
    origin: dict[str, Any]
    source: str = "the skill"

    def build(self) -> SkillPolicy:
        """The policy, in float32 on the CPU."""
        policy = build_policy(self.observation, self.action, self.policy_cfg)
        policy.load_state_dict({name: tensor.float() for name, tensor in self.weights.items()})
        return policy.eval()


def find_skill(path: Path) -> SkillFile:
    """A skill from its file, or from the newest checkpoint of a training run's folder.

    Raises UserError if there is none or it is damaged.
    """
    skill = skill_of_run(path) if path.is_dir() else read_skill(path)
    skill.source = str(path)
    return skill


def skill_of_run(run_dir: Path) -> SkillFile:
    """The skill that the newest valid checkpoint of a run holds.

    Raises UserError if the folder has none, or one that is not of a `train-skill` run.
    """
    checkpoint = load_newest(run_dir / "checkpoints")
    if checkpoint is None:
        raise UserError(f"{run_dir} has no checkpoint: give the folder of a training run")
    try:
        identity = checkpoint.manifest["identity"]
        spaces = read_spaces(identity["env"], identity["env_kwargs"])
        return SkillFile(
            identity["env"],
            identity["env_kwargs"],
            _policy_cfg(identity["policy"]),
            observation_spec(spaces[0]),
            action_spec(spaces[1]),
            below_prefix("policy", checkpoint.tensors),
            {"steps": checkpoint.step, "mode": checkpoint.manifest["mode"]},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{checkpoint.path} is not the checkpoint of a skill: {error}") from error


def write_skill(skill: SkillFile, path: Path) -> None:
    """Writes a skill whole or not at all; weights in half precision."""
    write_whole_file(path, skill_bytes(skill))


def skill_bytes(skill: SkillFile) -> bytes:
    """What a skill's file holds."""
    from safetensors.torch import save

    weights = {
        name: tensor.half() if tensor.dtype == torch.float32 else tensor
        for name, tensor in skill.weights.items()
    }
    weights = {name: tensor.contiguous() for name, tensor in weights.items()}
    action = skill.action
    header = {
        "format": FORMAT,
        "env": skill.env_id,
        "env_kwargs": skill.env_kwargs,
        "policy": _plain(skill.policy_cfg),
        "observation": {
            name: [list(spec.shape), spec.dtype.name] for name, spec in skill.observation.items()
        },
        "action": {"kind": action.kind, "low": action.low.tolist(), "high": action.high.tolist()},
        "origin": skill.origin,
        "checksum": _checksum(weights),
    }
    text = json.dumps(header, allow_nan=False)
    return save(weights, metadata={"rearrange": text})


def read_skill(path: Path) -> SkillFile:
    """The counterpart of `write_skill`. Raises UserError for a file that is not whole."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise UserError(f"there is no skill file {path}")
    try:
        with safe_open(str(path), framework="pt") as file:
            header = strict_json((file.metadata() or {}).get("rearrange", "null"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is not a skill file: {str(error).splitlines()[0]}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise UserError(f"{path} is not a skill file: its header does not say '{FORMAT}'")
    if header.get("checksum") != _checksum(weights):
        raise UserError(f"{path} is damaged: its weights do not have their checksum")
    try:
        low, high = (np.array(header["action"][key], np.float32) for key in ("low", "high"))
        skill = SkillFile(
            header["env"],
            header["env_kwargs"],
            _policy_cfg(header["policy"]),
            {
                name: ArraySpec(tuple(shape), np.dtype(dtype))
                for name, (shape, dtype) in header["observation"].items()
            },
            ActionSpec("box", len(low), (), low, high, (), low.shape),
            weights,
            header["origin"],
        )
        skill.build()
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise UserError(f"{path} is not a skill file: {str(error).splitlines()[0]}") from error
    return skill


def _plain(cfg: PolicyCfg) -> dict[str, Any]:
    from dataclasses import asdict

    return {name: value for name, value in asdict(cfg).items() if name != "name"}


def _policy_cfg(values: dict[str, Any]) -> PolicyCfg:
    """How it is computed (precision, compilation) is the reader's own choice."""
    values = {k: v for k, v in values.items() if k not in ("name", "precision", "compile")}
    return PolicyCfg(**values | {"encoder": EncoderCfg(**values["encoder"])})


def _checksum(weights: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
