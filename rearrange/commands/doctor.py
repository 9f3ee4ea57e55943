"""`rearrange doctor`: what this machine has, what works on it, and what to fix.

Checks that may crash or hang (OpenGL, a GPU's driver) run in their own process, with a time limit.
"""

import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import rearrange
from rearrange.configs.benches import DoctorCfg
from rearrange.errors import UserError
from rearrange.sim.kernel_cache import remove_damaged
from rearrange.system.machine import PROGRAM_BYTES, WORKER_BYTES, free_memory, num_cores
from rearrange.system.outputs import atomic_write_json, prepare_output
from rearrange.ver.bridge import habitat
from rearrange.ver.bridge.external_python import describe, find_python

GIB = 2**30
PACKAGES = ("mujoco", "numpy", "numba", "gymnasium", "omegaconf", "pddlpy", "imageio-ffmpeg") + (
    "matplotlib",
    "tqdm",
    "torch",
    "safetensors",
    "tensorboard",
)

RENDER = """
import sys, mujoco
from rearrange.sim.pictures.pictures import Painter
spec = mujoco.MjSpec()
spec.worldbody.add_light(pos=[0, 0, 3])
spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.3, 0.3, 0.3], rgba=[1, 0, 0, 1])
spec.worldbody.add_camera(name="eye", pos=[0, -2, 1], xyaxes=[1, 0, 0, 0, 0.447, 0.894])
model = spec.compile()
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
picture = Painter(model, 64, 48, backend=sys.argv[1]).render(data, "eye").astype(int)
red = (picture[..., 0] > picture[..., 1] + 50).mean()
assert 0.02 < red < 0.9, f"a red box fills {red:.0%} of the picture"
"""
GPU = """
import torch
names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(", ".join(names))
"""


@dataclass
class Finding:
    name: str
    value: str
    is_good: bool = True
    is_needed: bool = True
    """False: optional for the project."""
    fix: str = ""

    @property
    def mark(self) -> str:
        return "ok" if self.is_good else "FIX" if self.is_needed else "--"


def run(cfg: DoctorCfg) -> int:
    """Prints the findings; returns 1 if a required part does not work."""
    output = prepare_output(cfg.output)
    findings = [
        *_packages(),
        _cores(),
        _memory(),
        *(_renderer(name, cfg.timeout_s) for name in ("plain", "warp", "egl")),
        _gpu(cfg.timeout_s),
        _video_encoder(cfg.timeout_s),
        _kernel_cache(),
        _disk(),
    ]
    other = None
    if cfg.python is not None:
        finding, other = _external_python(cfg.python, cfg.timeout_s)
        findings.append(finding)
    findings.append(_habitat(other))
    for finding in findings:
        print(f"{finding.mark:>3}  {finding.name:<18} {finding.value}")
    to_fix = [finding for finding in findings if not finding.is_good and finding.fix]
    if to_fix:
        print("\nwhat to do:")
    for finding in to_fix:
        need = "" if finding.is_needed else " (if you want it)"
        print(f"  {finding.name}{need}: {finding.fix}")
    if output is not None:
        content = {"findings": [asdict(finding) for finding in findings]}
        atomic_write_json(output, content)
    return int(any(finding.is_needed and not finding.is_good for finding in findings))


def _packages() -> list[Finding]:
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_version()} on {system}, in {sys.prefix}"
    findings = [
        Finding("rearrange", f"{rearrange.__version__} in {Path(rearrange.__file__).parent}"),
        Finding("python", python),
    ]
    for name in PACKAGES:
        try:
            findings.append(Finding(name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            fix = "pip install --editable . in the checkout"
            findings.append(Finding(name, "not installed", is_good=False, fix=fix))
    return findings


def _cores() -> Finding:
    cores, limit = num_cores(), _cgroup_cores()
    value = f"{cores} to be used of {os.cpu_count()}"
    if limit is not None and limit < cores:
        fix = (
            f"this container has the time of {limit:g} cores: use num_workers={max(1, int(limit))}"
        )
        return Finding("cores", f"{value}, limited to {limit:g}", False, False, fix)
    return Finding("cores", value)


def _cgroup_cores() -> float | None:
    """Cores' worth of time that the container may use, or None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _memory() -> Finding:
    free = free_memory()
    if free is None:
        return Finding("memory", "unknown on this system", is_needed=False)
    needed = PROGRAM_BYTES + num_cores() * WORKER_BYTES
    value = f"{free / GIB:.1f} GiB free, {needed / GIB:.1f} GiB used with a worker on each core"
    fix = (
        f"use num_workers={max(1, (free - PROGRAM_BYTES) // WORKER_BYTES)}, or close other programs"
    )
    return Finding("memory", value, is_good=free >= needed, fix=fix)


def _try(program: str, timeout_s: float, *arguments: str, **environment: str) -> tuple[bool, str]:
    """Runs a Python program in its own process; (success, its last line or the failure)."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=os.environ | environment,
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer in {timeout_s:g} s"
    except OSError as error:
        return False, str(error)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    last = lines[-1][:100] if lines else ""
    if done.returncode < 0:
        return False, f"crashed with signal {-done.returncode}"
    return done.returncode == 0, last


def _renderer(name: str, timeout_s: float) -> Finding:
    environment = {"MUJOCO_GL": "egl"} if name == "egl" else {}
    works, answer = _try(RENDER, timeout_s, name, **environment)
    fixes = {
        "plain": "reinstall the project; this renderer needs nothing but numpy and numba",
        "warp": "pip install 'rearrange[video]', or in the checkout pip install -e '.[video]'",
        "egl": "install the OpenGL libraries (Debian: libegl1 libgl1-mesa-dri) or a GPU's driver",
    }
    return Finding(
        f"renderer {name}",
        "works" if works else f"does not work: {answer}",
        is_good=works,
        is_needed=name == "plain",
        fix=fixes[name],
    )


def _gpu(timeout_s: float) -> Finding:
    works, answer = _try(GPU, timeout_s)
    if works and answer:
        return Finding("GPU (training)", answer)
    has_driver = shutil.which("nvidia-smi") is not None
    fix = "this PyTorch has no CUDA: install the build for your GPU" if has_driver else ""
    why = "none that PyTorch can use" if works else f"PyTorch does not start: {answer}"
    return Finding("GPU (training)", why, is_good=False, is_needed=False, fix=fix)


def _video_encoder(timeout_s: float) -> Finding:
    try:
        ffmpeg = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
        done = subprocess.run([ffmpeg, "-version"], capture_output=True, timeout=timeout_s)
        words = done.stdout.decode(errors="replace").split()
        return Finding("ffmpeg", words[2] if len(words) > 2 else "?", done.returncode == 0)
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        value = f"does not work: {str(error).splitlines()[0]}"
        return Finding("ffmpeg", value, is_good=False, fix="pip install 'imageio[ffmpeg]'")


def _kernel_cache() -> Finding:
    """Whether numba can cache compiled kernels; compiling them takes many seconds."""
    package = Path(rearrange.__file__).parent / "sim" / "robot"
    home = Path(os.path.expanduser("~"))
    folders = [package, home] if home.is_absolute() else [package]  # some users have none
    if "NUMBA_CACHE_DIR" in os.environ:
        folders.insert(0, Path(os.environ["NUMBA_CACHE_DIR"]))
    modules = (importlib.import_module(f"rearrange.{name}") for name in ("tasks", "skills"))
    caches = [*folders, *(Path(module.__path__[0]) for module in modules)]
    removed = remove_damaged(folder for folder in caches if folder != home)
    note = f"; {len(removed)} damaged files removed, to be compiled again" if removed else ""
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return Finding("kernel cache", f"in {folder}{note}")
        except OSError:
            continue
    fix = "export NUMBA_CACHE_DIR=a folder you may write, or every start compiles for a minute"
    return Finding("kernel cache", "cannot be written", is_good=False, is_needed=False, fix=fix)


def _external_python(word: str, timeout_s: float) -> tuple[Finding, dict[str, str] | None]:
    """Whether environment workers can run there, available packages, and their versions."""
    name = "workers.python"
    try:
        versions = describe(find_python(word, "python"), timeout_s)
    except UserError as error:
        value = f"does not work: {error}"
        return Finding(name, value, is_good=False, fix="see its line"), None
    value = ", ".join(f"{package} {version}" for package, version in versions.items())
    if {"gym", "gymnasium"} & set(versions):
        return Finding(name, value), versions
    fix = "install there what the environment needs: gymnasium, or an old gym"
    return Finding(name, f"{value}, no gymnasium and no gym", False, False, fix), versions


def _habitat(other: dict[str, str] | None) -> Finding:
    """Whether Habitat's environments can be trained in; `export-homes` needs nothing of it.

    Args:
        other: versions of the given Python; None: use this one.
    """
    versions = habitat.versions_here() if other is None else other
    found = [f"{name} {v}" for name, v in versions.items() if name.startswith("habitat-")]
    where = "this Python" if other is None else "workers.python"
    missing = habitat.lacking(versions)
    if missing is None:
        return Finding("Habitat", f"{', '.join(found)} in {where}")
    value = f"{', '.join(found) or 'nothing of it'} in {where}"
    fix = f"doctor python=FOLDER and train workers.python=FOLDER of a Python with {missing}"
    return Finding("Habitat", value, is_good=False, is_needed=False, fix=fix)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    fix = "free some space, or choose another output_dir"
    return Finding("disk here", f"{free / GIB:.1f} GiB free", is_good=free > GIB, fix=fix)
