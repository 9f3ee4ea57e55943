"""The folder of the fork server's socket goes with the process that made it, however that ends."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from rearrange.ver.workers import forking
from tests.waits import wait_until


@pytest.fixture
def short_path():
    """The paths of sockets may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("is_server_killed", [False, True])
def test_a_killed_process_leaves_no_folder_for_long(short_path, monkeypatch, is_server_killed):
    code = """
        import multiprocessing, os, signal, sys
        from multiprocessing import forkserver
        from rearrange.ver.workers import forking
        forking.prepare_server()
        multiprocessing.get_context("forkserver").set_forkserver_preload(["rearrange.ver.workers.fork_server"])
        forkserver.ensure_running()
        print(forkserver._forkserver._forkserver_pid, flush=True)
        signal.pause()
    """
    environment = os.environ | {"TMPDIR": str(short_path)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        server = int(process.stdout.readline())
        (folder,) = short_path.iterdir()
        assert forking.FOLDER_NAME.fullmatch(folder.name)
        monkeypatch.setattr(tempfile, "tempdir", str(short_path))
        forking._remove_stale_folders()
        assert folder.exists()  # its owner lives
        if is_server_killed:
            os.kill(server, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if is_server_killed:
        forking._remove_stale_folders()
    wait_until(lambda: not folder.exists(), limit_s=10.0)
    assert list(short_path.iterdir()) == []


def test_only_folders_whose_owner_is_gone_for_certain_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    space, pid = forking._process_space(), os.getpid()
    names = {
        "gone": f"rearrange-{space:x}-{pid:x}-1-abcd",  # another process had the id
        "other_container": f"rearrange-{space + 1:x}-{pid:x}-1-abcd",
        "alive": forking._folder_prefix(pid) + "abcd",
        "foreign": "pymp-abcd",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / names["gone"].replace("abcd", "link")).symlink_to(tmp_path / "kept")
    forking._remove_stale_folders()
    left = {path.name for path in Path(tmp_path).iterdir()}
    link = names["gone"].replace("abcd", "link")
    assert left == {names["other_container"], names["alive"], names["foreign"], "kept", link}


def test_a_server_that_ended_by_itself_is_followed_by_another(short_path):
    # It takes the folder of its socket along.
    code = """
        import multiprocessing, os, time
        from multiprocessing import forkserver
        from rearrange.ver.workers import forking

        forking.prepare_server()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["rearrange.ver.workers.fork_server"])
        forkserver.ensure_running()
        folder = os.path.dirname(forkserver._forkserver._forkserver_address)
        os.close(forkserver._forkserver._forkserver_alive_fd)  # it has nobody to serve
        forkserver._forkserver._forkserver_alive_fd = os.open("/dev/null", os.O_RDONLY)
        os.waitid(os.P_PID, forkserver._forkserver._forkserver_pid, os.WEXITED | os.WNOWAIT)
        assert not os.path.exists(folder)
        worker, writer = forking.fork_worker(context, time.sleep, lambda r, s: (0.0,), "one")
        worker.join()
        print(worker.exitcode)
    """
    environment = os.environ | {"TMPDIR": str(short_path)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_too_many_open_files_are_said_at_once():
    code = """
        import multiprocessing, os, resource
        from multiprocessing import forkserver
        from rearrange.ver.workers import forking
        forking.prepare_server()
        context = multiprocessing.get_context("forkserver")
        forkserver.ensure_running()
        num_open = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (num_open + 3, num_open + 3))
        try:
            forking.fork_worker(context, print, lambda reader, server: (), "one")
        except OSError as error:
            print(error.errno, len(os.listdir("/proc/self/fd")) - num_open)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    number, left_open = map(int, done.stdout.split())
    assert number == errno.EMFILE and left_open <= 2 and "trying again" not in done.stderr
