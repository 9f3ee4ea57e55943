"""Who may write into a folder: one process, until it is gone, however it goes."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from rearrange.errors import UserError
from rearrange.system import folder_lock
from rearrange.system.folder_lock import LOCK_FILE, FolderLockLost, lock_folder


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(folder_lock, "LEAVING_S", 0.0)
    monkeypatch.setattr(folder_lock, "SILENT_S", 0.05)
    monkeypatch.setattr(folder_lock, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(folder_lock, "SETTLE_S", 0.02)


@pytest.fixture
def owner(tmp_path):
    """A process that holds the folder."""
    code = """
        import pathlib, signal, sys
        from rearrange.system.folder_lock import lock_folder
        with lock_folder(pathlib.Path(sys.argv[1])):
            print("here", flush=True)
            signal.pause()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


def refused(folder):
    with pytest.raises(UserError) as caught, lock_folder(folder):
        pass
    return str(caught.value)


def leave_record(folder, **changes):
    """As a process leaves it that had no time to clear up."""
    record = folder_lock._own_record() | changes
    (folder / LOCK_FILE).write_text(json.dumps(record))
    return record


def test_a_second_process_is_refused_and_told_who_the_first_is(owner, tmp_path):
    line = refused(tmp_path)
    assert re.search(rf"in use by process {owner.pid}, since 20..-..-.. ", line)
    owner.send_signal(signal.SIGSTOP)  # it does not beat any more, and is not dead
    assert "in use by process" in refused(tmp_path)


def test_a_killed_owner_is_followed_at_once(owner, tmp_path, caplog):
    owner.kill()
    owner.wait()
    assert (tmp_path / LOCK_FILE).exists()
    with lock_folder(tmp_path) as lock:
        lock.check()
    assert caplog.text == "" and list(tmp_path.iterdir()) == []


def test_a_folder_that_nothing_came_of_goes_and_one_that_was_there_stays(tmp_path):
    with lock_folder(tmp_path / "new"):
        assert "in use" in refused(tmp_path / "new")  # by ourselves, too
    assert list(tmp_path.iterdir()) == []
    with lock_folder(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    assert refused(tmp_path / "file").endswith("file is a file or below one")


def test_a_full_disk_leaves_no_folder(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    assert refused(tmp_path / "new").endswith("No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_another_machine_that_is_silent_is_followed_with_a_warning(tmp_path, caplog):
    leave_record(tmp_path, boot="another", host="node7")
    with lock_folder(tmp_path) as lock:
        lock.check()
    assert "no sign of life from process" in caplog.text and "on node7" in caplog.text


def test_another_machine_that_beats_is_left_alone(tmp_path, monkeypatch):
    """Where its kernel's lock does not reach us."""
    record = leave_record(tmp_path, boot="another", host="node7")
    sleep = folder_lock.time.sleep

    def beat(seconds):
        leave_record(tmp_path, **record | {"beat": 1})
        sleep(seconds)

    monkeypatch.setattr(folder_lock.time, "sleep", beat)
    line = refused(tmp_path)
    assert "on node7" in line and "dead for certain, remove" in line


def test_without_locks_of_the_file_system_a_living_process_of_this_machine_counts(
    tmp_path, monkeypatch
):
    def flock(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    leave_record(tmp_path)
    assert f"in use by process {os.getpid()}" in refused(tmp_path)
    leave_record(tmp_path, started=1)  # the id was another process's then
    with lock_folder(tmp_path):
        assert "in use" in refused(tmp_path)


def test_the_record_beats_and_a_damaged_one_is_nobodys(tmp_path):
    (tmp_path / LOCK_FILE).write_bytes(b"\0\xff[[[")
    path = tmp_path / LOCK_FILE
    with lock_folder(tmp_path):
        first = path.read_bytes()
        while (now := path.read_bytes()) == first:
            pass
        assert json.loads(now)["beat"] > json.loads(first)["beat"] and len(now) == len(first)


@pytest.mark.parametrize(
    ("harm", "is_taken", "message"),
    [
        (lambda f: (f / LOCK_FILE).unlink() or f.rmdir(), False, "was deleted or moved away"),
        (lambda f: f.rename(f.with_name("elsewhere")), False, "was deleted or moved away"),
        (lambda f: (f / LOCK_FILE).unlink(), True, "was removed"),
        (lambda f: leave_record(f, token="x", boot="b", host="node7"), True, "on node7, since"),
    ],
)
def test_the_owner_finds_out_that_its_folder_is_gone_or_taken(tmp_path, harm, is_taken, message):
    folder = tmp_path / "run"
    with lock_folder(folder) as lock:
        lock.check()
        harm(folder)
        with pytest.raises(FolderLockLost, match=message) as caught:
            lock.check()
        assert caught.value.is_taken == is_taken
    assert (folder / LOCK_FILE).exists() == (message == "on node7, since")
