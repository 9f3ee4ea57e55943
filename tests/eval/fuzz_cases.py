"""Inputs that nobody meant: sound ones of every kind, damaged at random.

samples(folder)  -> [Sample]: a parser, and content that it takes
damaged(content, rng) -> bytes
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORDS = [
    b"9" * 400, b"-1", b"1e308", b"1e999", b"NaN", b"null", b"true", b"[", b"]", b"{", b"}", b'"',
    b"(", b")", b"\\u0000", b"\x00", b"\xff", b"\x1b[31m", b"[" * 3000, b"(" * 3000, b"'", b",",
    b":", b"=", b"??x", b";", b"${x}", b"/dev/zero", b"this:X-v0", b"\n", b" ", b"0",
    b"18446744073", b"65536", b"[]," * 2000, b'{"a":' * 500, b"not", b"and", b"object", b"-",
    b"1.5",
]  # fmt: skip


@dataclass
class Sample:
    name: str
    content: bytes
    parse: Callable[[bytes], object]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with one to six random changes."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(data) + 1)
        end = place + rng.choice((1, 1, 3, 10, 100))
        kind = rng.randrange(7)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[place:end]
        elif kind == 2:
            data[place:place] = rng.choice(WORDS)
        elif kind == 3:
            data[place:end] = rng.choice(WORDS)
        elif kind == 4:
            start = rng.randrange(len(data) + 1)
            data[place:place] = data[start : start + rng.randint(1, 200)]
        elif kind == 5:
            data[place:end] = rng.randbytes(rng.randint(1, 8))
        elif rng.random() < 0.2:
            del data[place:]
    return bytes(data)


def samples(folder: Path) -> list[Sample]:
    """One sample of each parser; files are written into `folder`."""
    return [
        *_pddl(folder),
        *_episodes(folder),
        *_skills(folder),
        *_checkpoints(folder),
        *_metrics(folder),
        _overrides(),
    ]


def _file(folder: Path, name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A parser of content from one that reads files."""

    def parse(content: bytes) -> object:
        path = folder / name
        path.write_bytes(content)
        return read(path)

    return parse


def _pddl(folder: Path) -> list[Sample]:
    from rearrange.planner.home.problems import DOMAIN_PATH
    from rearrange.planner.strips.pddl import parse_domain, parse_problem

    text = DOMAIN_PATH.read_bytes()
    domain = parse_domain(text.decode(), "domain.pddl")
    problem = (
        b"(define (problem p) (:domain " + domain.name.encode() + b")\n"
        b"  (:objects a b - object)\n  (:init )\n  (:goal (and )))\n"
    )
    return [
        Sample("domain", text, lambda c: parse_domain(c.decode("utf-8", "replace"), "d")),
        Sample("problem", problem,
               lambda c: parse_problem(c.decode("utf-8", "replace"), domain, "p")),
    ]  # fmt: skip


def _episodes(folder: Path) -> list[Sample]:
    from rearrange.tasks.episodes.files import read_episodes, write_episodes
    from rearrange.tasks.episodes.generate import generate_episode

    path = folder / "episodes.json.gz"
    write_episodes(path, [generate_episode("rearrange_easy", "val", 0, i) for i in range(2)])
    packed = path.read_bytes()
    read = _file(folder, "episodes.json.gz", read_episodes)
    return [
        Sample("episodes, packed", packed, read),
        Sample("episodes", gzip.decompress(packed), lambda c: read(gzip.compress(c, 1))),
    ]


def _skills(folder: Path) -> list[Sample]:
    import torch

    from rearrange.skills.deployed.skill_files import SkillFile, read_skill, skill_bytes
    from rearrange.skills.network.policy import build_policy
    from rearrange.skills.network.policy_cfg import PolicyCfg
    from rearrange.tasks.gym_factory import read_spaces
    from rearrange.ver.workers.spaces import action_spec, observation_spec

    env_id, options = "rearrange/Navigate-v0", {"depth": False}
    spaces = read_spaces(env_id, options)
    spaces = observation_spec(spaces[0]), action_spec(spaces[1])
    sizes = {"vector_size": 2, "prev_action_size": 0, "hidden_sizes": [2], "lstm_layers": 0}
    cfg = PolicyCfg(**sizes)
    torch.manual_seed(0)
    weights = build_policy(*spaces, cfg).state_dict()
    content = skill_bytes(SkillFile(env_id, options, cfg, *spaces, weights, {"steps": 1}))
    return [Sample("skill", content, _file(folder, "x.safetensors", read_skill))]


def _checkpoints(folder: Path) -> list[Sample]:
    import torch

    from rearrange.ver.run.checkpoint import load_checkpoint, save_checkpoint
    from rearrange.ver.run.run_values import check_run_values

    contents = {
        "identity": {"env": "CartPole-v1", "env_kwargs": {}},
        "mode": "ver", "updates": 3, "restarts": 0,
        "episodes": {"num_finished": 1, "of_envs": [[{"return": 1.0}]]},
        "snapshot": {"random": {}, "episode_numbers": [1], "is_exact": False},
        "optimizer": [{"lr": 0.1, "num_parameters": 1}],
    }  # fmt: skip
    checkpoints = folder / "checkpoints"
    manifest = save_checkpoint(checkpoints, 1, {"policy/w": torch.zeros(4)}, contents)
    tensors = next(checkpoints.glob("*.safetensors"))
    whole, text = tensors.read_bytes(), manifest.read_text()

    def read(path: Path) -> object:
        checkpoint = load_checkpoint(path)
        return check_run_values(checkpoint.manifest, "here: ")

    def with_right_checksum(content: bytes) -> bytes:
        """As somebody would leave a manifest who changed it by hand."""
        try:
            fields = json.loads(content)
            fields = {name: value for name, value in fields.items() if name != "checksum"}
            plain = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        except (ValueError, AttributeError, RecursionError):
            return content
        return json.dumps(
            fields | {"checksum": hashlib.sha256(plain.encode()).hexdigest()}
        ).encode()

    parse = _file(checkpoints, manifest.name, read)
    again = _file(checkpoints, tensors.name, lambda _: read(manifest))

    def parse_tensors(content: bytes) -> object:
        fields = json.loads(text)
        fields |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest.write_bytes(with_right_checksum(json.dumps(fields).encode()))
        return again(content)

    def parse_manifest(content: bytes) -> object:
        tensors.write_bytes(whole)
        return parse(content)

    return [
        Sample("manifest", text.encode(), parse_manifest),
        Sample("manifest, right checksum", text.encode(),
               lambda c: parse_manifest(with_right_checksum(c))),
        Sample("tensors", whole, parse_tensors),
    ]  # fmt: skip


def _metrics(folder: Path) -> list[Sample]:
    from rearrange.commands.results.training_runs import read_run

    lines = [{"step": i, "time_s": 0.5 * i, "episode/return": 1.5, "a": None} for i in range(4)]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    run = folder / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_bytes(content)
    settings = b"env: CartPole-v1\nmode: ver\npolicy:\n  name: mlp\n  hidden_sizes: [64, 64]\n"

    def curve(path: Path) -> object:
        return read_run(path.parent).curve("episode/return", "step", 2)

    def settings_of(content: bytes) -> object:
        (run / "metrics.jsonl").write_bytes(good)
        return _file(run, "config.yaml", curve)(content)

    def metrics_of(content: bytes) -> object:
        (run / "config.yaml").write_bytes(settings)
        return _file(run, "metrics.jsonl", curve)(content)

    good = content
    return [Sample("metrics", content, metrics_of), Sample("settings", settings, settings_of)]


def _overrides() -> Sample:
    from rearrange.cli import split_verb
    from rearrange.commands.settings import load

    overrides = (
        b"evaluate\ntask=pick\nnum_episodes=3\nsplit=val\nlimits.pick=300\noracle_skills=pick,place"
    )

    def parse(content: bytes) -> object:
        verb, rest = split_verb(content.decode(errors="surrogateescape").split("\n"))
        return load(verb, rest)

    return Sample("overrides", overrides, parse)
