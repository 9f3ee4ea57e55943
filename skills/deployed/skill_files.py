"""Trained skills as single safetensors files, with everything needed to run them in the header.

    training run  -- skill_of_run, write_skill -->  pick.safetensors  -- read_skill -->  SkillFile

Weights are stored in half precision. The header's metadata holds one JSON text (the environment and
its settings, the spaces, the network's sizes, the origin of the weights) and a SHA-256 over that
text and the weights. Files of format 1 have a checksum of the weights alone: their text is checked
as strictly, but a changed digit that gives another valid value goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rearrange.errors import UserError
from rearrange.skills.deployed.own_way import is_made
from rearrange.skills.deployed.skill_header import (
    MOST_STEPS,
    SkillHeader,
    check_header,
    check_numbers,
    check_spaces,
    check_weights,
    header_json,
)
from rearrange.skills.network.policy import SkillPolicy, build_policy
from rearrange.system.checked_json import Node, strict_json
from rearrange.system.files import read_whole_file, write_whole_file
from rearrange.tasks.floor_way import FLOOR_WAY
from rearrange.ver.run.checkpoint import (
    MANIFEST_NAME,
    Checkpoint,
    below_prefix,
    load_checkpoint,
    load_newest,
)

FORMAT, OLD_FORMAT = "rearrange skill 2", "rearrange skill 1"
SUFFIX = ".safetensors"
MAX_BYTES = 256 * 2**20  # the paper's network has 30 MB
_SENSING = (
    "camera_size", "depth", "rgb", "panoptic", "ranges", "handle_sensors", "observation_delay",
    "motor_lead",
)  # fmt: skip
MAX_HEADER = 2**20  # bytes; ours have a few kilobytes


@dataclass
class SkillFile(SkillHeader):
    """A trained skill.

    Attributes:
        env_kwargs: options of its environment, including `camera_size`.
        origin: how it was trained: steps, mode, seed and so on.
        source: the file it was read from, for messages.
    """

    weights: dict[str, Tensor]
    origin: dict[str, Any]
    source: str = "the skill"

    def sensing_options(self) -> dict[str, Any]:
        """The options of its environment that say what it senses and how far motors lead. A sensor
        that it makes itself is not asked for."""
        names = _SENSING if is_made(self.observation) else (*_SENSING, FLOOR_WAY)
        return {name: self.env_kwargs[name] for name in names if name in self.env_kwargs}

    def build(self) -> SkillPolicy:
        """The policy, in float32 on the CPU, ready to act."""
        policy = build_policy(self.observation, self.action, self.policy_cfg)
        policy.load_state_dict({name: tensor.float() for name, tensor in self.weights.items()})
        policy.refresh()
        return policy.eval()


def find_skill(path: Path) -> SkillFile:
    """A skill from its file, the newest checkpoint of a training run's folder, or one by its
    manifest, RUN/checkpoints/000000524288.json.

    Raises UserError if there is none, or it is damaged or not for the home.
    """
    skill = skill_of_run(path) if is_of_run(path) else read_skill(path)
    skill.source = str(path)
    return skill


class FoundWeights(NamedTuple):
    """Weights and what they are for."""

    env_id: str
    weights: dict[str, Tensor]
    activation: str | None
    """Of the network's layers, which shapes do not tell; None: the file does not say."""


def find_weights(path: Path) -> FoundWeights:
    """The weights of the file that `find_skill` finds, for any environment. Nothing is created or
    imported.

    Raises UserError if there is none or it is damaged.
    """
    if not is_of_run(path):
        skill = read_skill(path)
        return FoundWeights(skill.env_id, skill.weights, skill.policy_cfg.activation)
    checkpoint, identity = _checkpoint_of(path)
    weights = below_prefix("policy", checkpoint.tensors)
    check_numbers(weights, identity.where)
    policy = identity.value.get("policy")
    activation = policy.get("activation") if isinstance(policy, dict) else None
    return FoundWeights(identity["env"].text(), weights, activation)


def is_of_run(path: Path) -> bool:
    """Whether a path is a run's folder or one of its checkpoints."""
    return path.is_dir() or MANIFEST_NAME.fullmatch(path.name) is not None


def skill_of_run(run_dir: Path) -> SkillFile:
    """The skill that the newest valid checkpoint of a run holds.

    Raises UserError if the folder has none, or one that is not of a `train-skill` run.
    """
    checkpoint, identity = _checkpoint_of(run_dir)
    header = check_header(identity)
    weights = below_prefix("policy", checkpoint.tensors)
    check_weights(weights, header, identity.where)
    mode = Node(checkpoint.manifest, identity.where)["mode"].text()
    return _skill(header, weights, {"steps": checkpoint.step, "mode": mode})


def _checkpoint_of(run_dir: Path) -> tuple[Checkpoint, Node]:
    """The given checkpoint, or a run's newest valid one, and its identity."""
    if MANIFEST_NAME.fullmatch(run_dir.name) and not run_dir.is_dir():
        checkpoint = load_checkpoint(run_dir)
    else:
        checkpoint = load_newest(run_dir / "checkpoints")
    if checkpoint is None:
        raise UserError(f"{run_dir} has no checkpoint: give the folder of a training run")
    where = f"{checkpoint.path} is not the checkpoint of a skill: "
    return checkpoint, Node(checkpoint.manifest, where)["identity"]


def write_skill(skill: SkillFile, path: Path) -> None:
    """Writes a skill atomically; weights in half precision."""
    write_whole_file(path, skill_bytes(skill))


def skill_bytes(skill: SkillFile) -> bytes:
    """The content of a skill file. Raises UserError for weights beyond half precision."""
    from safetensors.torch import save

    weights = {name: _in_half(tensor).contiguous() for name, tensor in skill.weights.items()}
    check_numbers(weights, f"{skill.source} in half precision: ")
    header = {"format": FORMAT} | header_json(skill) | {"origin": skill.origin}
    text = json.dumps(header, allow_nan=False)
    return save(weights, metadata={"rearrange": text, "sha256": _checksum(weights, text)})


def read_skill(path: Path) -> SkillFile:
    """The counterpart of `write_skill`. Raises UserError for a damaged file."""
    if not path.exists():
        raise UserError(f"there is no skill file {path}")
    where = f"{path} is not a skill file: "
    text, checksum, weights = _opened(read_whole_file(path, MAX_BYTES), where)
    try:
        node = Node(strict_json(text), where)
    except ValueError as error:
        raise UserError(f"{where}its header is not JSON ({error})") from error
    node["format"].text((FORMAT, OLD_FORMAT))
    if node.value["format"] == OLD_FORMAT:
        is_whole = node["checksum"].text() == _checksum(weights)
    else:
        is_whole = checksum == _checksum(weights, text)
    if not is_whole:
        raise UserError(f"{path} is damaged: it does not match its checksum")
    header = check_header(node)
    check_spaces(node, header)
    check_weights(weights, header, where)
    node["origin"]["steps"].integer(0, MOST_STEPS)
    return _skill(header, weights, node["origin"].value)


def _opened(content: bytes, where: str) -> tuple[str, str, dict[str, Tensor]]:
    """Our text, its checksum and the tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    size = int.from_bytes(content[:8], "little")
    if not 2 <= size <= min(MAX_HEADER, len(content) - 8):
        raise UserError(f"{where}it does not begin like one of our safetensors files")
    try:
        metadata = Node(strict_json(content[8 : 8 + size].decode()), where)["__metadata__"]
        text = metadata["rearrange"].text()
        checksum = metadata["sha256"].text() if "sha256" in metadata.value else ""
        return text, checksum, load(content)
    except UserError:
        raise
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{where}{(str(error).splitlines() or ['?'])[0]}") from error


def _skill(header: SkillHeader, weights: dict[str, Tensor], origin: dict[str, Any]) -> SkillFile:
    return SkillFile(
        header.env_id, header.env_kwargs, header.policy_cfg, header.observation, header.action,
        weights, origin,
    )  # fmt: skip


def weights_checksum(weights: dict[str, Tensor]) -> str:
    """SHA-256 of weights in half precision, as a skill file has them: equal for a run and its
    exported file."""
    return _checksum({name: _in_half(tensor) for name, tensor in weights.items()})


def _in_half(tensor: Tensor) -> Tensor:
    return tensor.half() if tensor.dtype == torch.float32 else tensor


def _checksum(weights: dict[str, Tensor], text: str = "") -> str:
    """SHA-256 of the header's text and of all weights with their names."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(weights):
        tensor = weights[name].contiguous()
        digest.update(name.encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
