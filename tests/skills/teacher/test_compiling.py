"""Nothing of the home is left to compile for worker processes."""

import subprocess
import sys

import pytest

# In a process of its own: what other tests have called is compiled there for good. A function that
# was called has a signature for each set of types, be it compiled or read from the cache.
LATER = """
import gc
import sys

import numpy as np
from numba.core.dispatcher import Dispatcher

from rearrange.skills.teacher.compiling import compile_home, compile_teacher
from rearrange.skills.teacher.guide_cfg import GuideCfg
from rearrange.skills.teacher.guided import make_guided

def compiled():
    found = [f for f in gc.get_objects() if isinstance(f, Dispatcher)]
    return {(f.py_func.__module__, f.__name__, str(s)) for f in found for s in f.nopython_signatures
            if f.py_func.__module__.startswith("rearrange")}

env_id = sys.argv[1]
kwargs = {"depth": False, "ranges": True, "split": "train"}
compile_home(env_id, kwargs)
compile_teacher(env_id)
before = compiled()
env = make_guided(0, env_id, 1, kwargs, GuideCfg(policy_turn=(20, 40), teacher_turn=(5, 10)))
rng = np.random.default_rng(0)
for index in range(6):
    env.reset(options={"index": index})
    for _ in range(60):
        action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
        action[8:10] = (-1.0, 1.0 if index % 2 else 0.0)  # away, from where there is a way to ask
        if any(env.step(action)[2:4]):
            break
print(len(before), sorted(compiled() - before))
"""


@pytest.mark.parametrize("skill", ["OpenDrawer", "Place"])
def test_workers_find_all_that_they_need_compiled(skill):
    command = [sys.executable, "-c", LATER, f"rearrange/{skill}-v0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    count, left = result.stdout.strip().split(" ", 1)
    assert int(count) >= 10 and left == "[]"
