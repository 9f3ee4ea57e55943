"""An evaluation's worker goes with the evaluation, also while it is stopped."""

import os
import signal
import subprocess
import sys
import textwrap

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
