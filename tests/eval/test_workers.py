"""An evaluation's worker goes with the evaluation, and is alive as long as it steps."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

from rearrange.eval import workers
from rearrange.eval.benchmarks.chaos.run import state_of
from tests.waits import wait_until

CODE = """
    import json, multiprocessing, signal
    from rearrange.eval.workers import run_episode_worker

    if __name__ == "__main__":
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        worker = context.Process(target=run_episode_worker, args=(theirs, None, None))
        worker.start()
        ours.send_bytes(b"0")
        assert "exception" in json.loads(ours.recv_bytes())  # it has begun to work
        print(worker.pid, flush=True)
        signal.pause()
"""


def test_a_stopped_worker_does_not_outlive_a_killed_evaluation(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(CODE))
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    try:
        worker = int(process.stdout.readline())
        os.kill(worker, signal.SIGSTOP)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    wait_until(lambda: state_of(worker) in "XZ", limit_s=10.0)


class SteppingProcess:
    """In a worker's place: by the clock it needs 9 s for each of 4 steps, and more to start."""

    exitcode = None

    def __init__(self, connection, clock):
        self.connection, self.clock, self.steps = connection, clock, 0

    def step(self, _=None):
        self.clock.now += 9.0 if self.steps else workers.START_LIMIT_S - 1.0
        self.steps += 1
        message = {"steps": self.steps} if self.steps < 4 else {"record": {"steps": 4}}
        self.connection.send_bytes(json.dumps(message).encode())

    def join(self, timeout=None):
        pass

    def is_alive(self):
        return False


def test_an_episode_may_take_longer_than_a_worker_may_be_silent(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: clock.now))
    runner = SimpleNamespace(read_record=lambda values: values)
    pool = workers.WorkerPool(runner, 1, None, timeout_s=10.0, max_restarts=0)
    ours, theirs = multiprocessing.Pipe()
    process = SteppingProcess(theirs, clock)
    monkeypatch.setattr(pool, "_start", lambda: workers._Worker(process, ours))
    monkeypatch.setattr(ours, "send_bytes", lambda index: process.step())  # has its first episode
    assert list(pool.run([0], process.step)) == [{"steps": 4}]
    assert clock.now > 100.0 + workers.START_LIMIT_S + 20.0 and pool.lost == 0
