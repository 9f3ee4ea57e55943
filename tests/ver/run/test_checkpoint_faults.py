"""A writer that is killed, has no room or no permission leaves a valid checkpoint."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from rearrange.errors import UserError
from rearrange.ver.run.checkpoint import (
    load_newest,
    save_checkpoint,
)
from tests.ver.run.saved_checkpoints import (
    assert_is_whole,
    names,
    save,
    tensors_file,
    tensors_of,
)

KILLED_WRITERS = """
import itertools, os, random, signal, sys, time
from pathlib import Path
import torch
from rearrange.ver.run.checkpoint import load_newest, save_checkpoint

folder, num_kills = Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
rng = random.Random(0)
last, num_interrupted = 0, 0
for _ in range(num_kills):
    reading, writing = os.pipe()
    writer = os.fork()
    if writer == 0:
        for value in itertools.count(last + 1):
            # Every second time a step is saved again, with other numbers in its place.
            tensors = {"x": torch.full((40_000,), float(value))}
            save_checkpoint(folder, value // 2, tensors, {"value": value}, keep=1)
            os.write(writing, b"%d " % value)
    os.close(writing)
    said = os.read(reading, 9)  # the first one is saved
    time.sleep(rng.uniform(0.0, 0.03))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    said = (said + os.read(reading, 65536)).split()
    os.close(reading)
    checkpoint = load_newest(folder)
    value = checkpoint.manifest["value"]
    assert value >= int(said[-1]), "older than what was saved"
    assert checkpoint.step == value // 2
    assert torch.equal(checkpoint.tensors["x"], torch.full((40_000,), float(value)))
    num_interrupted += len(list(folder.iterdir())) != 2
    last = value
save_checkpoint(folder, last, {}, {"value": last}, keep=1)
print(num_interrupted, len(list(folder.iterdir())))
"""


def run_python(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_killed_writers_always_leave_a_valid_checkpoint(tmp_path):
    num_interrupted, num_files = run_python(KILLED_WRITERS, str(tmp_path), "25")[0].split()
    assert int(num_interrupted) >= 5  # kills that hit a save in its middle
    assert int(num_files) == 2  # what the killed writers left is gone


@pytest.mark.parametrize("fails_at", range(8))
def test_writer_that_stops_at_any_system_call_leaves_a_valid_checkpoint(
    tmp_path, monkeypatch, fails_at
):
    # As kill -9 would: from that call on nothing more reaches the disk, the clean-up included.
    save(tmp_path, 4)
    calls = 0

    def counted(function):
        def call(*arguments, **settings):
            nonlocal calls
            calls += 1
            if calls > fails_at:
                raise SystemExit
            return function(*arguments, **settings)

        return call

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "unlink"):
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(Path, "unlink", counted(Path.unlink))
        with pytest.raises(SystemExit):
            save_checkpoint(tmp_path, 4, tensors_of(4) | {"more": torch.ones(1)}, {"n": 2}, keep=1)
    checkpoint = load_newest(tmp_path)
    assert checkpoint.step == 4
    if checkpoint.manifest != {"n": 2}:
        assert_is_whole(checkpoint)


def test_write_that_ends_in_the_middle_keeps_the_earlier_ones(tmp_path):
    # A limit on the size of files stands for the full disk.
    path = save(tmp_path, 1)
    before = names(tmp_path)
    assert 2000 < tensors_file(path).stat().st_size < 3200
    code = f"""
import resource, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from saved_checkpoints import save_checkpoint, tensors_of
for limit in (10, 1000, 2000, 3200):  # the last one has room for the tensors, not the manifest
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        save_checkpoint(Path({str(tmp_path)!r}), 2, tensors_of(2), {{"text": "x" * 5000}})
    except OSError as error:
        print(error.errno, error.filename)
"""
    lines = run_python(code)
    assert len(lines) == 4
    for line, suffix in zip(lines, ["safetensors"] * 3 + ["json"], strict=True):
        assert line.startswith(f"{errno.EFBIG} {tmp_path}/000000000002")
        assert line.endswith(suffix)
    assert names(tmp_path) == before
    assert_is_whole(load_newest(tmp_path))


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB, where the tests may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True)
    except OSError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("no permission to mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_raises_enospc_and_keeps_the_earlier_ones(small_disk):
    save(small_disk, 1)
    (small_disk / "other").write_bytes(bytes(150_000))
    before = names(small_disk)
    for size in (20_000, 200_000):  # floats: 80 kB, that fit or nearly so, and 800 kB
        try:
            save_checkpoint(small_disk, 2, {"x": torch.zeros(size)}, {})
        except OSError as error:
            assert error.errno == errno.ENOSPC and "000000000002" in error.filename
        else:
            assert size == 20_000
            before = names(small_disk)
    assert names(small_disk) == before
    assert load_newest(small_disk).step == 2
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(OSError) as caught:
        save(small_disk, 3)
    assert caught.value.errno == errno.EROFS
    assert load_newest(small_disk).step == 2


def test_folder_without_permission_is_an_error_and_not_an_empty_one():
    code = """
import os, sys
from pathlib import Path
import torch
from rearrange.errors import UserError
from rearrange.ver.run.checkpoint import load_newest, save_checkpoint
folder = Path(sys.argv[1])
import safetensors.torch
save_checkpoint(folder, 1, {"x": torch.ones(1)}, {})
folder.chmod(0o555)
if os.getuid() == 0:
    os.setuid(65534)  # permissions do not bind root
try:
    save_checkpoint(folder, 2, {"x": torch.ones(1)}, {})
except PermissionError as error:
    print("not written", error.filename)
print(load_newest(folder).step)
if os.getuid() != 65534:
    folder.chmod(0o311)
    try:
        load_newest(folder)
    except UserError as error:
        print(error)
"""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place) / "checkpoints"
        try:
            lines = run_python(code, str(folder))
        finally:
            folder.chmod(0o755)
        assert lines[0].startswith("not written") and "000000000002" in lines[0]
        assert lines[1] == "1"
        assert len(lines) == 2 or lines[2].startswith("cannot read the checkpoints in ")
    with pytest.raises(UserError, match="cannot read the checkpoints in "):
        load_newest(Path(__file__))
