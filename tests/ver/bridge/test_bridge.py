"""Workers of another Python: what they step, how they are supervised, and what they leave behind.

The other Python has numpy and a stand-in for an old gym alone: no torch, MuJoCo, numba, Gymnasium.
REARRANGE_OTHER_PYTHON names a real one, with gym and its CartPole-v1.
"""

import ast
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import rearrange
from rearrange.errors import UserError
from rearrange.eval.benchmarks.chaos.run import processes
from rearrange.ver.bridge import entry
from rearrange.ver.bridge.external_python import ExternalEnvs, describe, find_python
from rearrange.ver.workers.environment_worker import WorkerCfg, episode_seed
from rearrange.ver.workers.pool import PoolCfg, WorkerPool
from rearrange.ver.workers.shared_memory import SlotLayout
from tests.waits import wait_until

CFG = WorkerCfg(seed=3, info_keys=("success", "deep/index"), start_mode="off", start_horizon=1)
REAL = os.environ.get("REARRANGE_OTHER_PYTHON")
FOREIGN = {"torch", "mujoco", "numba", "gymnasium", "gym"}


@pytest.fixture
def start_pool(bare_python):
    made = []

    def start(num_envs=2, env_id="Counting-v0", python=bare_python, kwargs=None, **options):
        envs = ExternalEnvs(find_python(str(python)), env_id, kwargs or {})
        layout = SlotLayout(num_envs, *envs.specs(), len(CFG.info_keys))
        cfg = PoolCfg(**{"step_timeout_s": 5.0, "max_restarts": 10} | options)
        pool = WorkerPool(envs, layout, CFG, np.zeros(num_envs, int), False, cfg)
        made.append(pool)
        pool.start()
        receive(pool, range(num_envs))
        return pool

    yield start
    for pool in made:
        pool.close()


def receive(pool, envs, limit_s=20.0):
    end, missing = time.monotonic() + limit_s, set(envs)
    while missing:
        assert time.monotonic() < end, f"no answer from {missing}"
        missing -= set(pool.receive(0.05))


def links():
    """This process's open files."""
    paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return [path for path in paths if os.path.lexists(path)]


def num_open():
    """The memory of pools that are still referred to is not counted."""
    return sum("memfd" not in os.readlink(link) for link in links())


def of_groups(groups):
    """Processes of these process groups; a worker leads the one of what it starts."""
    found = set()
    for pid in processes():
        with suppress(ProcessLookupError):
            found |= {pid} if os.getpgid(pid) in groups else set()
    return found


def wait_until_gone(groups):
    """Until nobody of these groups is left: whom a signal ends ends a little later."""
    wait_until(lambda: not of_groups(groups), explain=lambda: of_groups(groups))


def step(pool, action, envs=(0, 1)):
    pool.slots.action[list(envs)] = action
    pool.send(list(envs))
    receive(pool, envs)


def test_the_workers_side_is_python_3_9_and_imports_numpy_alone():
    package = Path(rearrange.__file__).parent
    to_see, seen = [Path(entry.__file__)], set()
    to_see.append(Path(entry.__file__).with_name("serving.py"))
    while to_see:
        path = to_see.pop()
        seen.add(path.stem)
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        for node in tree.body:
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in named:
                first, *parts = name.split(".")
                own = package.joinpath(*parts).with_suffix(".py")
                if first == "rearrange" and parts and own.is_file() and own.stem not in seen:
                    to_see.append(own)
                assert first in {"rearrange", "numpy", *sys.stdlib_module_names}, path
    assert {"environment_worker", "shared_memory", "spaces", "gym_adapter"} <= seen


def test_an_old_gym_is_stepped_with_seeds_flat_actions_and_episode_statistics(start_pool):
    pool = start_pool()
    slots = pool.slots
    assert slots.layout.action.low.tolist() == [-2.0, -2.0, 0.0]
    for number in range(1, 16):  # three episodes
        step(pool, [0.5, -1.0, 1.0 if number % 2 else -0.2])
        # arm in [-2, 2]; grip of 0, 1, 2 rounded
        assert slots.reward.tolist() == pytest.approx(
            [1.0 - 2.0 + 10 * (2 if number % 2 else 1)] * 2
        )
        count, episode = number % 5, number // 5
        for e in range(2):
            expected = [np.float32(episode_seed(3, e, episode)), count]
            assert slots.observation["where"][e].tolist() == expected
        assert slots.observation["phase"][0].argmax() == count
        is_over = count == 0
        assert slots.terminated.tolist() == [is_over and episode != 3] * 2
        assert slots.truncated.tolist() == [is_over and episode == 3] * 2
        if is_over:
            assert slots.episode_length.tolist() == [5, 5]
            odd = 3 if episode != 2 else 2
            expected = 5 * -1.0 + 10 * (odd * 2 + (5 - odd))
            assert slots.episode_return.tolist() == pytest.approx([expected] * 2)
            assert slots.infos.tolist() == [[1.0, 0.0], [1.0, 1.0]]
            assert slots.final["where"][1].tolist()[1] == 5


def test_habitats_ids_are_registered_by_habitat_gym_and_seeded_by_seed(start_pool):
    pool = start_pool(1, env_id="habitat:HabitatPick-v0")
    assert pool.slots.observation["where"].tolist() == [[np.float32(episode_seed(3, 0, 0)), 0.0]]


def test_a_script_may_stand_before_the_interpreter(start_pool, bare_python, tmp_path):
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\n{bare_python}/bin/python "$@"\nexit 3\n')
    script.chmod(0o755)
    pool = start_pool(1, python=script)
    step(pool, 0.0, [0])
    groups = set(pool.pids)
    assert len(of_groups(groups)) == 2
    os.kill(pool.pids[0], signal.SIGKILL)
    while not pool.take_faults():
        pool.receive(0.05)
    wait_until_gone(groups)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_is_replaced_and_begins_the_next_episode(start_pool, signum):
    pool = start_pool(step_timeout_s=1.0)
    step(pool, 0.0)
    old = pool.pids
    os.kill(old[1], signum)
    pool.send([0, 1])
    receive(pool, [0, 1])
    (fault,) = pool.take_faults()
    assert fault.envs == [1] and pool.pids[0] == old[0] and old[1] not in processes()
    assert pool.slots.is_start.tolist() == [0, 1]
    assert pool.slots.observation["where"][1].tolist() == [np.float32(episode_seed(3, 1, 1)), 0.0]


@pytest.mark.parametrize(
    ("fault", "reason"), [("exit", "ended with exit code 7"), ("hang", "did not answer in time")]
)
def test_a_death_and_a_hang_within_a_step_are_found(start_pool, fault, reason):
    pool = start_pool(1, kwargs={"fault": fault}, step_timeout_s=1.0)
    for _ in range(3):
        step(pool, 0.0, [0])
    assert [found.reason for found in pool.take_faults()] == [reason]


def test_kills_leave_no_process_no_file_and_no_memory(start_pool):
    before = num_open()
    pool = start_pool(1, kwargs={"fault": "helper"})
    opened, groups = num_open(), set(pool.pids)
    memory = next(link for link in map(os.readlink, links()) if "memfd:rearrange" in link)
    for _ in range(3):
        for _ in range(3):
            step(pool, 0.0, [0])  # starts a process that would sleep on
        assert len(of_groups(groups)) == 2
        os.kill(pool.pids[0], signal.SIGKILL)
        while not pool.take_faults():
            pool.receive(0.05)
        receive(pool, [0])
        wait_until_gone(groups)
        assert num_open() == opened
        groups = set(pool.pids)
    pool.close()
    pool.close()
    wait_until_gone(groups)
    assert num_open() == before
    del pool.slots
    assert memory not in map(os.readlink, links())


def test_workers_end_with_a_training_that_was_killed_also_while_they_are_stopped(bare_python):
    program = textwrap.dedent(f"""
        import numpy as np, os, signal, sys
        from rearrange.ver.bridge.external_python import ExternalEnvs, find_python
        from rearrange.ver.workers.environment_worker import WorkerCfg
        from rearrange.ver.workers.pool import PoolCfg, WorkerPool
        from rearrange.ver.workers.shared_memory import SlotLayout
        envs = ExternalEnvs(find_python({str(bare_python)!r}), "Counting-v0", {{}})
        layout = SlotLayout(1, *envs.specs(), 0)
        cfg = WorkerCfg(0, (), "off", 1)
        pool = WorkerPool(envs, layout, cfg, np.zeros(1, int), False, PoolCfg())
        pool.start()
        while not pool.receive(1.0): pass
        os.kill(pool.pids[0], signal.SIGSTOP)
        print(pool.pids[0], flush=True)
        signal.pause()
    """)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as training:
        pid = int(training.stdout.readline())
        assert pid in processes()
        training.kill()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


@pytest.mark.parametrize(
    ("env_id", "kwargs", "line"),
    [
        ("nowhere:Any-v0", {}, "cannot import 'nowhere' for env 'nowhere:Any-v0'"),
        ("Any-v0", {}, "does not know env 'Any-v0'"),
        ("Unmade-v0", {}, "cannot make env 'Unmade-v0' in .*ConnectionError: the display is not"),
        ("Counting-v0", {"colour": 3}, "cannot make env .* unexpected keyword argument 'colour'"),
        ("Broken-v0", {}, "the first reset raised ArithmeticError: no world to start in"),
        ("Strange-v0", {}, "actions must be a Box, Discrete or MultiDiscrete space, got Text"),
        ("Counting-v0", {"fault": "exit", "index": np.zeros(1)}, "env_kwargs for another Python"),
    ],
)
def test_what_it_cannot_make_is_one_line_that_names_it(bare_python, env_id, kwargs, line):
    python = find_python(str(bare_python))
    with pytest.raises(UserError, match=line) as found:
        ExternalEnvs(python, env_id, kwargs).specs()
    assert "\n" not in str(found.value)
    assert str(python) in str(found.value) or "env_kwargs" in line


def test_an_interpreter_that_is_none_is_said(tmp_path):
    with pytest.raises(UserError, match="there is no .*/bin/python"):
        find_python(str(tmp_path))
    (tmp_path / "text").touch()
    with pytest.raises(UserError, match="must be a program"):
        find_python(str(tmp_path / "text"))
    with pytest.raises(UserError, match="did not answer as a Python"):
        describe(find_python("/bin/true"), 20.0)
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 100\n")
    slow.chmod(0o755)
    with pytest.raises(UserError, match="did not answer within 0.2 s"):
        describe(slow, 0.2)
    bare = tmp_path / "bare"  # without numpy
    bare.write_text(f'#!/bin/sh\nPYTHONPATH= exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(UserError, match=f"{bare} lacks numpy: {bare} -m pip install numpy"):
        describe(bare, 20.0)


def test_the_other_python_sees_none_of_ours(bare_python):
    found = describe(find_python(str(bare_python)), 20.0)
    assert found["numpy"] == np.__version__ and not FOREIGN & set(found)


@pytest.mark.external_python
@pytest.mark.skipif(REAL is None, reason="REARRANGE_OTHER_PYTHON names no interpreter")
def test_a_real_old_gym_takes_its_steps(start_pool):
    pool = start_pool(python=REAL, env_id="CartPole-v1")
    first = pool.slots.observation["observation"].copy()
    assert np.abs(first).max() < 0.05 and (first[0] != first[1]).any()  # CartPole's start
    lengths = []
    for number in range(100):
        step(pool, number % 2)
        lengths += pool.slots.episode_length[pool.slots.terminated > 0].tolist()
    assert len(lengths) >= 2 and all(8 <= length <= 200 for length in lengths)
    again = start_pool(python=REAL, env_id="CartPole-v1")
    assert again.slots.observation["observation"].tolist() == first.tolist()
