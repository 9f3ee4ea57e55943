"""The folder of the fork server's socket goes with the process that made it, however that ends."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from rearrange.ver.workers import forking


@pytest.fixture
def short_path():
    """The paths of sockets may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("is_server_killed", [False, True])
def test_a_killed_process_leaves_no_folder_for_long(short_path, monkeypatch, is_server_killed):
    code = """
        import multiprocessing, os, sys, time
        from multiprocessing import forkserver
        from rearrange.ver.workers import forking
        forking.prepare_server()
        multiprocessing.get_context("forkserver").set_forkserver_preload(["rearrange.ver.workers.fork_server"])
        forkserver.ensure_running()
        print(forkserver._forkserver._forkserver_pid, flush=True)
        time.sleep(1e6)
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
    end = time.monotonic() + 10.0
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.01)
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
