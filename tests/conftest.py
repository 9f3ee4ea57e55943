"""What all tests share: no settings of the person who runs them, one thread, and no window.

Several processes may run them, each whole files (`./run test`): what a module's fixture makes is
made once, and tests that look for processes and memory that stayed find their own.
"""

import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Trainings with pictures learn with two threads, which wait for each other in a loop for a while:
# here on cores that other tests need, the other thread's among them.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("MPLBACKEND", "agg")
# Tests state what the CPU gives, bit for bit, and some fork, which torch cannot once it has used a
# GPU. Those of a GPU: CUDA_VISIBLE_DEVICES=0 ./run test -m gpu
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# GLFW, which each process that imports mujoco loads, starts another one to choose among libraries.
if glfw := importlib.util.find_spec("glfw"):
    library = Path(str(glfw.origin)).with_name("x11") / "libglfw.so"
    if library.is_file():
        os.environ.setdefault("PYGLFW_LIBRARY", str(library))
# Containers often turn bytecode off. Here each worker collects all tests, and tests start many
# processes: each would compile what it imports, a training for more than a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).parent
# A fresh checkout compiles kernels for a minute. One process does so in the first file while others
# run what needs no kernels; what takes long in one piece does not come last either.
FIRST = ("planner/agents/test_chain.py", "test_types.py", "ver/", "cluster/", "system/")


def pytest_configure(config):
    """Workers share the rewriting of asserts, which takes ten seconds in a fresh checkout.

    pytest keeps what it has rewritten, but all workers begin at once. The names are its own ones:
    where they have changed, each worker rewrites all files, as before.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    with suppress(Exception):  # a file that cannot be read is told of when it is collected
        from _pytest.assertion import rewrite

        own = int(worker["workerid"].removeprefix("gw"))
        state = config.stash[rewrite.assertstate_key]
        for path in sorted(ROOT.rglob("test_*.py"))[own :: worker["workercount"]]:
            folder = rewrite.get_cache_dir(path)
            kept = folder / f"{path.stem}{rewrite.PYC_TAIL}"
            if rewrite._read_pyc(path, kept) is None and rewrite.try_makedirs(folder):
                source_hash, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(state, code, source_hash, kept)


def pytest_collection_modifyitems(items):
    def place(item):
        name = item.path.as_posix().removeprefix(f"{ROOT.as_posix()}/")
        return next((i for i, first in enumerate(FIRST) if name.startswith(first)), len(FIRST))

    items.sort(key=place)


@pytest.fixture(scope="session")
def make_skill():
    """make_skill(task, camera_size=16, ...): a trained skill's file, of a network that has never
    learned anything."""

    def make(task, **env_kwargs):
        import torch

        from rearrange.skills.deployed.skill_files import SkillFile
        from rearrange.skills.network.pictures.encoder import EncoderCfg
        from rearrange.skills.network.policy import build_policy
        from rearrange.skills.network.policy_cfg import PolicyCfg
        from rearrange.tasks.gym_factory import read_spaces
        from rearrange.tasks.rules.names import SKILL_TASKS
        from rearrange.ver.workers.spaces import action_spec, observation_spec

        cfg = PolicyCfg(encoder=EncoderCfg(base_width=4, image_size=16), lstm_hidden=8)
        kwargs = {"camera_size": 16, "action_space": "full", "observation_delay": 1} | env_kwargs
        spaces = read_spaces(SKILL_TASKS[task], kwargs)
        spaces = observation_spec(spaces[0]), action_spec(spaces[1])
        torch.manual_seed(3)
        weights = build_policy(*spaces, cfg).state_dict()
        return SkillFile(SKILL_TASKS[task], kwargs, cfg, *spaces, weights, {"steps": 7})

    return make
