"""Other trainers in the same run: Sample Factory (APPO) and SB3-contrib (RecurrentPPO).

Each peer is a script of its own, run by a Python of the caller's choice, because its pins may ask
for another virtual environment than ours. It gets a JSON file with `PeerCfg` and writes one with
the end of each update: the task, the observation, the encoder, the batch and the number of epochs
are ours, the organisation is the peer's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any

import rearrange
from rearrange.errors import UserError
from rearrange.eval.benchmarks.peers.peer_cfg import PeerCfg

PEERS = {
    "sb3": ("rearrange.eval.benchmarks.peers.sb3", "sb3_contrib"),
    "sample_factory": ("rearrange.eval.benchmarks.peers.sample_factory", "sample_factory"),
}
"""Name -> the script's module, and the package that it needs."""


def check_python(python: str) -> str:
    """The Python to run peers with. Raises UserError if there is none of that name."""
    found = which(os.path.expanduser(python))
    if found is None:
        raise UserError(f"peers_python must be a Python that can be run, got {python}")
    return found


def is_installed(name: str, python: str) -> bool:
    """Whether this Python has the peer, and what our environments need."""
    imports = f"import mujoco, numba, gymnasium, {PEERS[name][1]}"
    command = [python, "-c", imports]
    return subprocess.run(command, capture_output=True, env=_environment()).returncode == 0


def run_peer(name: str, python: str, cfg: PeerCfg, timeout_s: float) -> dict[str, Any]:
    """The peer's answer: {"update_ends_s": [...], "num_parameters": int, "versions": {...}}.

    Raises RuntimeError with the last lines of its output if it fails, or takes longer than
    `timeout_s`.
    """
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        settings, answer = Path(folder) / "settings.json", Path(folder) / "answer.json"
        settings.write_text(json.dumps(asdict(cfg)))
        log = Path(folder) / "log.txt"
        command = [python, "-m", PEERS[name][0], str(settings), str(answer)]
        with log.open("w") as file:
            child = subprocess.Popen(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, cwd=folder,
                env=_environment(), start_new_session=True,
            )  # fmt: skip
            try:
                code = child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end_group(child)
        if code != 0 or not answer.exists():
            how = f"took longer than {timeout_s:.0f} s" if code is None else f"ended with {code}"
            raise RuntimeError(f"the peer {name} {how}:\n{_what_went_wrong(log)}")
        return json.loads(answer.read_text())


def _environment() -> dict[str, str]:
    """A checkout's code is found by PYTHONPATH; an installed one has to be installed there too."""
    checkout = Path(rearrange.__file__).resolve().parent.parent
    environment = dict(os.environ)
    if (checkout / "pyproject.toml").is_file():
        environment["PYTHONPATH"] = str(checkout)
    return environment


def _what_went_wrong(log: Path) -> str:
    """The first error and the last lines: a trainer of many processes may hang after an error."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if "Error: " in line or "unhandled exception" in line]
    return "\n".join(errors[:2] + ["..."] + lines[-6:])


def _end_group(child: subprocess.Popen) -> None:
    """Workers that outlive their peer are ended: the group is its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
