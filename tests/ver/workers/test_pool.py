"""WorkerPool against what the operating system says about its processes. No torch, no trainer."""

import functools
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import forkserver, reduction
from types import SimpleNamespace

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.eval.benchmarks.chaos.run import in_use, processes, shared_memory_files
from rearrange.ver.workers import pool as pool_module
from rearrange.ver.workers import shared_memory as sm
from rearrange.ver.workers.environment_worker import WorkerCfg, episode_seed
from rearrange.ver.workers.pool import PoolCfg, SerialPool, TooManyRestarts, WorkerPool
from rearrange.ver.workers.shared_memory import SlotLayout
from rearrange.ver.workers.spaces import action_spec, observation_spec
from rearrange.ver.workers.waiting import Waiting
from rearrange.workloads.faulty import FaultyEnv

LAYOUT_OF_TWO = SlotLayout(
    2, observation_spec(FaultyEnv.observation_space), action_spec(FaultyEnv.action_space), 1
)
WORKER_CFG = WorkerCfg(seed=3, info_keys=("success",), start_mode="off", start_horizon=1)


@pytest.fixture
def pools():
    """Makes pools of two environments; closes them."""
    made = []

    def make(kind=WorkerPool, numbers=(0, 0), **kwargs):
        options = {"step_timeout_s": 1.0, "max_restarts": 2}
        options |= {name: kwargs.pop(name) for name in list(kwargs) if hasattr(PoolCfg, name)}
        cfg = (PoolCfg(**options),) if kind is WorkerPool else ()
        make_env = functools.partial(FaultyEnv, **kwargs)
        pool = kind(make_env, LAYOUT_OF_TWO, WORKER_CFG, np.array(numbers), False, *cfg)
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.close()


def receive(pool, envs, limit_s=10.0):
    """Waits until all of `envs` have answered; the seconds it took."""
    begin, missing = time.monotonic(), set(envs)
    while missing:
        assert time.monotonic() - begin < limit_s, f"no answer from {missing}"
        missing -= set(pool.receive(0.05))
    return time.monotonic() - begin


def started(pool):
    pool.start()
    receive(pool, [0, 1])
    return pool


def num_pipes():
    """This process's; the memory of pools that are still referred to is not counted."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum("pipe" in os.readlink(link) for link in links if os.path.lexists(link))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/schedstat") as file:
        return 1e-9 * int(file.read().split()[0])


def step(pool, envs=(0, 1), action=1):
    pool.slots.action[list(envs)] = action
    pool.send(list(envs))
    receive(pool, envs)


def test_workers_and_one_process_give_the_same_episodes(pools):
    parallel, serial = started(pools()), started(pools(SerialPool))
    for number in range(50):  # two ends of episodes among them
        for pool in (parallel, serial):
            step(pool, action=number % 2)
        for name in ("reward", "truncated", "episode_number", "episode_return", "is_start"):
            got, expected = getattr(parallel.slots, name), getattr(serial.slots, name)
            assert got.tolist() == expected.tolist(), name
        for kind in ("observation", "final"):
            got = getattr(parallel.slots, kind)["observation"]
            np.testing.assert_array_equal(got, getattr(serial.slots, kind)["observation"])
    assert parallel.slots.episode_number.tolist() == [2, 2]
    expected = FaultyEnv(1)
    observation, _ = expected.reset(seed=episode_seed(3, 1, 2))
    for number in range(40, 50):
        observation, *_ = expected.step(number % 2)
    np.testing.assert_array_equal(parallel.slots.observation["observation"][1], observation)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_is_replaced_and_begins_the_next_episode(pools, signum):
    pool = started(pools())
    step(pool)
    old = pool.pids
    os.kill(old[1], signum)
    pool.slots.action[:] = 1
    pool.send([0, 1])
    took = receive(pool, [0, 1])
    assert took < 5.0 if signum == signal.SIGSTOP else took < 4.0  # 1 s is the limit for a step
    assert pool.slots.is_start.tolist() == [0, 1]
    assert pool.slots.episode_number.tolist() == [0, 1]
    (fault,) = pool.take_faults()
    assert fault.envs == [1] and pool.restarts == 1 and pool.take_faults() == []
    assert pool.pids[0] == old[0] and old[1] not in processes()
    step(pool)
    assert pool.slots.is_start.tolist() == [0, 0]


def test_the_fork_server_may_die_while_it_is_asked_for_a_worker(pools, monkeypatch, caplog):
    pool = started(pools())
    step(pool)
    sendfds, num_deaths = reduction.sendfds, []

    def die(*args):
        if len(num_deaths) < 2:
            num_deaths.append(os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL))
            raise BrokenPipeError(32, "Broken pipe")
        return sendfds(*args)

    monkeypatch.setattr(reduction, "sendfds", die)
    os.kill(pool.pids[0], signal.SIGKILL)
    while 0 not in {e for fault in pool.take_faults() for e in fault.envs}:
        pool.receive(0.05)
    assert "could not be forked (BrokenPipeError" in caplog.text and len(num_deaths) == 2
    end = time.monotonic() + 20.0
    while pool.slots.is_start.tolist() != [1, 1]:  # the others went with their server
        pool.receive(0.05)
        assert time.monotonic() < end
    assert pool.restarts == 2


def test_an_exception_reaches_the_parent_with_its_traceback(pools, caplog):
    pool = started(pools(fault="raise", at_step=2))
    step(pool)
    pool.send([0, 1])
    receive(pool, [0, 1])
    assert (
        pool.take_faults()[0].reason
        == "raised ArithmeticError: this environment is broken on purpose"
    )
    assert "ArithmeticError: this environment is broken on purpose" in caplog.text
    assert "in _break" in caplog.text


def test_the_budget_of_restarts_ends(pools):
    pool = started(pools(fault="exit", at_step=1, broken_index=0))
    with pytest.raises(TooManyRestarts, match="environment 0 ended with exit code 7; .*of 2 re"):
        for _ in range(3):
            pool.send([0])
            receive(pool, [0])
    assert pool.restarts == 2


def test_a_mistake_of_the_user_is_not_tried_again(pools):
    pool = started(pools(fault="mistake", at_step=1))
    with pytest.raises(UserError, match="does not like its settings"):
        step(pool)
    assert pool.restarts == 0


@pytest.mark.parametrize("kind", [WorkerPool, SerialPool])
@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ("nan_observation", "environment 1, episode 0, step 2: observation 'observation'"),
        ("nan_reward", "environment 1, episode 0, step 2: reward nan"),
        ("nan_reset", "environment 1, episode 1, step 0: observation 'observation'"),
    ],
)
def test_numbers_that_are_not_finite_are_named_and_never_handed_on(pools, kind, fault, place):
    pool = started(pools(kind, fault=fault, at_step=2))
    number_of_step = 2 if fault != "nan_reset" else 20  # the next reset is after 20 steps
    for _ in range(number_of_step):
        step(pool)
    assert pool.slots.fault.tolist() == [0, sm.FAULT_NONFINITE]
    assert pool.slots.get_message(1).startswith(place)
    assert pool.slots.is_start[1] == 1 and pool.slots.truncated[1] == 0
    assert np.isfinite(pool.slots.observation["observation"]).all()
    step(pool)
    assert pool.slots.fault.tolist() == [0, 0] and pool.restarts == 0


def test_an_environment_that_never_begins_properly_counts_as_broken():
    class Hopeless(FaultyEnv):
        def _draw(self):
            return np.full(4, np.inf, np.float32)

    pool = SerialPool(Hopeless, LAYOUT_OF_TWO, WORKER_CFG, np.zeros(2, int), False)
    with pytest.raises(RuntimeError, match="environment 0, episode 0, step 0.*3 resets in a row"):
        pool.start()


def test_a_send_that_comes_after_the_restart_is_forgotten(pools):
    """As of an inference thread which took up an environment just before its worker died."""
    pool = started(pools())
    os.kill(pool.pids[1], signal.SIGKILL)
    while not pool.take_faults():
        pool.receive(0.05)
    pool.send([1])
    receive(pool, [1])
    assert pool.slots.is_start[1] == 1
    assert pool.receive(0.3) == [], "it took a step which nobody waits for"


def test_looking_away_for_long_is_not_held_against_the_workers(pools, monkeypatch):
    pool = started(pools(step_s=0.2))
    pool.send([0, 1])
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 60.0)  # as after Ctrl-Z
    monkeypatch.setattr(pool_module, "time", late)
    receive(pool, [0, 1])
    assert pool.restarts == 0


def test_a_worker_of_several_environments_has_the_time_for_each(pools):
    pool = started(pools(envs_per_worker=2, step_s=0.7))
    assert len(pool.pids) == 1
    pool.send([0, 1])  # 1.4 s together, and 1 s is the limit
    receive(pool, [0, 1])
    assert pool.restarts == 0


def test_with_a_killed_worker_all_its_environments_begin_anew(pools):
    pool = started(pools(envs_per_worker=2))
    pool.send([0, 1])
    receive(pool, [0, 1])
    os.kill(pool.pids[0], signal.SIGKILL)
    receive(pool, [0, 1])
    assert [fault.envs for fault in pool.take_faults()] == [[0, 1]]
    assert pool.slots.is_start[:2].all()


@pytest.mark.parametrize(
    ("num_envs", "cores", "expected", "has_spare_core"),
    [
        (16, 2, 4, False), (16, 1, 8, False), (16, 8, 1, False), (16, 64, 1, True),
        (1, 1, 1, False), (1, 2, 1, True), (2, 2, 1, False), (7, 2, 1, False), (9, 2, 2, False),
    ],
)  # fmt: skip
def test_as_many_environments_as_leave_two_processes_to_a_core(
    num_envs, cores, expected, has_spare_core
):
    sized = PoolCfg(envs_per_worker=0, max_restarts=3).sized(num_envs, cores)
    awake_us = 1000.0 if has_spare_core else 0.0
    assert sized == PoolCfg(envs_per_worker=expected, max_restarts=3, awake_us=awake_us)
    assert PoolCfg(envs_per_worker=5).sized(num_envs, cores).envs_per_worker == 5


def test_who_waits_awake_sleeps_in_time_and_hears_all():
    reader, writer = os.pipe()
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    for timeout_s, awake_s in ((0.0, 1.0), (0.05, 0.0), (0.05, 0.02), (0.05, 1.0)):
        begin, busy = time.monotonic(), time.thread_time()
        assert Waiting(poll, awake_s).wait(timeout_s) == []
        assert timeout_s - 0.002 < time.monotonic() - begin < timeout_s + 5.0
        assert time.thread_time() - busy < min(timeout_s, awake_s) + 0.01
    for awake_s in (0.0, 0.001, 1.0):  # told while it sleeps, or while it is awake
        timer = threading.Timer(0.03, os.write, (writer, b"x"))
        timer.start()
        assert Waiting(poll, awake_s).wait(None) == [(reader, select.POLLIN)]
        timer.join()
        assert os.read(reader, 9) == b"x"
    os.close(writer)
    assert Waiting(poll, 1.0).wait(None) == [(reader, select.POLLHUP)]
    os.close(reader)


def test_who_waits_awake_sleeps_for_a_while_if_others_take_the_processor(monkeypatch):
    turns = []
    monkeypatch.setattr(os, "sched_yield", lambda: turns.append(time.sleep(0.02)))
    reader, writer = os.pipe()
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    waiting = Waiting(poll, 1.0)
    for timeout_s in (0.03, 0.01, 0.01):
        assert waiting.wait(timeout_s) == []
    assert len(turns) == 1
    assert waiting.wait(0.5) == []  # 20 such turns are over by now
    assert waiting.wait(0.01) == []
    assert len(turns) == 2
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("awake_us", [0.0, 1000.0])
def test_workers_that_wait_awake_step_alike_and_are_replaced_alike(pools, awake_us):
    pool = started(pools(awake_us=awake_us))
    for _ in range(20):
        step(pool)
    os.kill(pool.pids[0], signal.SIGKILL)
    receive(pool, [0])
    assert [fault.envs for fault in pool.take_faults()] == [[0]]
    pids = pool.pids
    begin, used = time.monotonic(), [cpu_seconds(pid) for pid in pids]
    while time.monotonic() < begin + 0.5:  # nothing is asked of them
        assert pool.receive(0.1) == []
    assert all(cpu_seconds(pid) - before < 0.1 for pid, before in zip(pids, used, strict=True))


def test_nothing_is_left_behind_also_by_workers_that_do_not_listen(pools):
    started(pools()).close()  # what stays: the server of all pools
    files, shared = num_pipes(), shared_memory_files()
    for _ in range(2):
        pool = started(pools())
        pids = pool.pids
        os.kill(pids[0], signal.SIGSTOP)
        os.kill(pids[1], signal.SIGKILL)
        receive(pool, [1])
        begin = time.monotonic()
        pool.close()
        pool.close()
        assert time.monotonic() - begin < 5.0
        assert not {*pids, *pool.pids} & {*processes()}
    assert num_pipes() == files
    left = shared_memory_files() - shared - in_use()
    assert not left & shared_memory_files()  # tests beside this one have their own, for a moment


def test_workers_import_neither_torch_nor_the_callers_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import functools, sys
            import numpy as np
            import torch
            print("imported as", __name__)
            from rearrange.ver.workers.environment_worker import WorkerCfg
            from rearrange.workloads.faulty import FaultyEnv
            from rearrange.ver.workers.pool import PoolCfg, WorkerPool
            from rearrange.ver.workers.shared_memory import SlotLayout
            from rearrange.ver.workers.spaces import action_spec, observation_spec
            spec = observation_spec(FaultyEnv.observation_space)
            layout = SlotLayout(2, spec, action_spec(FaultyEnv.action_space), 0)
            cfg = WorkerCfg(0, (), "off", 1)
            pool = WorkerPool(FaultyEnv, layout, cfg, np.zeros(2, int), True, PoolCfg())
            pool.start()
            ready = set()
            while len(ready) < 2:
                ready |= {*pool.receive(0.1)}
            for pid in pool.pids:
                print("torch" in open(f"/proc/{pid}/maps").read())
            pool.close()
        """)
    )
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert result.stdout.split("\n")[:-1] == ["imported as __main__", "False", "False"], result
