"""The hardware and software versions at hand. torch is imported only when needed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearrange.errors import UserError

if TYPE_CHECKING:
    import torch

WORKER_BYTES = 250 * 2**20  # limit for one environment worker, set by the design
PROGRAM_BYTES = 2**30  # the command itself, with a renderer and matplotlib
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@contextmanager
def single_threaded() -> Generator[None]:
    """Processes started within the block use one thread each; libraries read this when imported."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def num_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pick_device(name: str, local_rank: int = 0, local_world_size: int = 1) -> torch.device:
    """The torch device for a setting; of several ranks on this machine each gets its own GPU.

    Raises UserError for a device that does not exist.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device must be auto, cpu, cuda or cuda:N; got '{name}'") from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device must be auto, cpu, cuda or cuda:N; got '{name}'")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device {name} is not available: torch sees no GPU; use device=cpu")
    if device.type == "cuda" and local_world_size > 1:
        if ":" in name:
            raise UserError(f"device={name} is one GPU for all ranks; use device=cuda")
        device = torch.device("cuda", local_rank)
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        if local_world_size > 1:
            raise UserError(
                f"{local_world_size} ranks on this machine need a GPU each, torch sees {count}: "
                "use fewer ranks, or device=cpu"
            )
        raise UserError(f"device {name} is not available: torch sees {count} GPUs")
    return device


def acting_facts() -> dict[str, Any] | None:
    """What a network is computed with on this processor; None where torch is not in use.

    Another instruction set or number of threads rounds sums differently, so that a trained policy
    acts slightly differently.
    """
    if (torch := sys.modules.get("torch")) is None:
        return None
    has_onednn = torch.backends.mkldnn.is_available()
    return {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "onednn": has_onednn,
        "onednn_bfloat16": has_onednn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
        "threads": torch.get_num_threads(),
    }


def versions() -> dict[str, str]:
    """Versions of everything that a result depends on."""
    found = {"python": platform.python_version()}
    for package in ("rearrange", "torch", "numpy", "gymnasium", "mujoco"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def commit() -> str | None:
    """Version of the running checkout, from `git describe`; None if this is not a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.strip() or None
    return None


def free_memory() -> int | None:
    """Available memory in bytes, within the container's limit; None if unknown."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            free = min(free, int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no limit, or another way to set it
    return free


def machine() -> str:
    """Processor, cores that may be used, system: "AMD EPYC 7B13, 2 cores, Linux x86_64"."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{cpu_name()}, {num_cores()} cores, {system}"


def cpu_name() -> str:
    """The processor's name, as the system knows it."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        if match := re.search(r"^model name\s*: *(.+)$", text, re.MULTILINE):
            return match[1].strip()
    return platform.processor() or "unknown processor"
