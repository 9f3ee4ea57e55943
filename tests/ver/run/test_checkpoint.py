"""A checkpoint is whole or skipped, whatever happens to its files or its writer."""

import errno
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from rearrange.errors import UserError
from rearrange.ver.run.checkpoint import (
    below_prefix,
    best_checkpoint,
    load_checkpoint,
    load_newest,
    save_checkpoint,
    with_prefix,
)
from rearrange.ver.run.checkpoint_match import check_matches, shapes_of


def tensors_of(step):
    """Recognisable numbers of several types and shapes."""
    return {
        "policy/weight": torch.full((20, 30), float(step)),
        "policy/is_seen": torch.tensor([True, False]),
        "policy/half": torch.tensor([step % 100], dtype=torch.bfloat16),
        "count": torch.tensor(step, dtype=torch.int64),
        "random": torch.arange(9, dtype=torch.uint8),
        "none": torch.zeros(0, 3),
    }


def save(folder, step, keep=10):
    return save_checkpoint(folder, step, tensors_of(step), {"skill": "pick", "n": [step]}, keep)


def tensors_file(manifest_path):
    return manifest_path.with_name(json.loads(manifest_path.read_text())["file"])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_is_whole(checkpoint):
    expected = tensors_of(checkpoint.step)
    assert checkpoint.manifest == {"skill": "pick", "n": [checkpoint.step]}
    assert checkpoint.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensor.dtype == checkpoint.tensors[name].dtype
        assert torch.equal(tensor, checkpoint.tensors[name])


def test_newest_comes_back_bit_for_bit_and_older_ones_go(tmp_path):
    folder = tmp_path / "run" / "checkpoints"
    assert load_newest(folder) is None
    for step in (5, 300, 20, 1000):
        path = save(folder, step, keep=2)
    checkpoint = load_newest(folder)
    assert checkpoint.step == 1000 and checkpoint.path == path
    assert_is_whole(checkpoint)
    assert [name for name in names(folder) if name.endswith("json")] == [
        "000000000300.json",
        "000000001000.json",
    ]
    assert len(names(folder)) == 4


def test_manifest_keys_and_big_numbers_come_back_as_json_has_them(tmp_path):
    manifest = {"by_number": {2: "b", 10: "a"}, "pair": (1, 2.5), "state": 2**127 + 1, "ä": "ö\n"}
    save_checkpoint(tmp_path, 1, {}, manifest)
    assert load_newest(tmp_path).manifest == {
        "by_number": {"2": "b", "10": "a"},
        "pair": [1, 2.5],
        "state": 2**127 + 1,
        "ä": "ö\n",
    }
    with pytest.raises(ValueError):
        save_checkpoint(tmp_path, 2, {}, {"loss": float("nan")})
    assert load_newest(tmp_path).step == 1


def test_tied_sliced_and_transposed_tensors_are_saved_as_they_look(tmp_path):
    weight = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4))
    views = {"a": weight, "b": weight, "slice": weight[1:], "turned": weight.T}
    save_checkpoint(tmp_path, 1, views, {})
    loaded = load_newest(tmp_path).tensors
    assert all(torch.equal(view, loaded[name]) for name, view in views.items())


def test_step_saved_again_replaces_the_first_one(tmp_path):
    save_checkpoint(tmp_path, 7, {"x": torch.zeros(3)}, {"try": 1})
    save_checkpoint(tmp_path, 7, {"x": torch.ones(3)}, {"try": 2})
    checkpoint = load_newest(tmp_path)
    assert checkpoint.manifest == {"try": 2} and checkpoint.tensors["x"].tolist() == [1, 1, 1]
    assert len(names(tmp_path)) == 2


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


@pytest.mark.parametrize("size", [0, 1, 8, 100, -1])
@pytest.mark.parametrize("which", ["tensors", "manifest"])
def test_truncated_newest_is_skipped_and_named(tmp_path, caplog, size, which):
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    path = newest if which == "manifest" else tensors_file(newest)
    content = path.read_bytes()
    path.write_bytes(content[: size - 1 if size < 0 else size])  # the manifest ends in a newline
    with caplog.at_level(logging.WARNING):
        assert_is_whole(load_newest(tmp_path))
    assert load_newest(tmp_path).step == 1
    assert caplog.records[0].getMessage().count(newest.name) == 1


def test_any_flipped_bit_is_found(tmp_path):
    newest = save(tmp_path, 2)
    tensors = tensors_file(newest)
    expected = load_checkpoint(newest).manifest
    for path, stride in ((tensors, 97), (newest, 1)):
        content = path.read_bytes()
        for place in range(0, len(content), stride):
            flipped = bytearray(content)
            flipped[place] ^= 1 << place % 8
            path.write_bytes(flipped)
            try:
                checkpoint = load_checkpoint(newest)
            except UserError as error:
                assert str(newest) in str(error) and "\n" not in str(error)
            else:  # white space of the manifest that became other white space
                assert path == newest and checkpoint.manifest == expected
                assert_is_whole(checkpoint)
        path.write_bytes(content)


def test_tensors_without_a_manifest_are_skipped_and_named(tmp_path, caplog):
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    name = tensors_file(newest).name
    newest.unlink()
    with caplog.at_level(logging.WARNING):
        assert load_newest(tmp_path).step == 1
    assert name in caplog.text and "no manifest" in caplog.text


BROKEN_MANIFESTS = {
    "empty": b"",
    "no JSON": b"step: 2",
    "no text": b"\xff\xfe\x00",
    "another value": b"[1, 2]",
    "null": b"null",
    "deep": b"[" * 100_000,
    "endless number": b'{"format": ' + b"9" * 10_000 + b"}",
    "infinity": b'{"format": 1e999}',
    "NaN": b'{"format": NaN}',
}


@pytest.mark.parametrize("content", BROKEN_MANIFESTS.values(), ids=BROKEN_MANIFESTS)
def test_manifest_that_is_none_is_skipped(tmp_path, caplog, content):
    save(tmp_path, 1)
    save(tmp_path, 2).write_bytes(content)
    assert load_newest(tmp_path).step == 1
    assert caplog.text.count("000000000002.json") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "another program's"}, "not one of a checkpoint"),
        ({"format_version": 2}, "format version is 2"),
        ({"format_version": "1"}, "format version is '1'"),
        ({"format_version": True}, "format version is True"),
        ({"step": 2.0}, "'step'"),
        ({"step": True}, "'step'"),
        ({"step": 10**400}, "401 digits"),
        ({"step": 3}, "checksum"),
        ({"size": -1}, "checksum"),
        ({"size": "large"}, "'size'"),
        ({"sha256": None}, "'sha256'"),
        ({"file": "../../secret.safetensors"}, "checksum"),
        ({"contents": []}, "'contents'"),
        ({"contents": {"skill": "place"}}, "checksum"),
        ({"checksum": "0"}, "checksum"),
        ({"more": 1}, "checksum"),
    ],
)
def test_manifest_of_wrong_type_or_version_is_skipped_and_says_why(
    tmp_path, caplog, change, message
):
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert load_newest(tmp_path).step == 1
    assert message in caplog.text
    assert caplog.text.count("\n") == 1


def test_manifest_with_a_right_checksum_cannot_lead_out_of_the_folder(tmp_path):
    from rearrange.ver.run.checkpoint import _checksum

    path = save(tmp_path / "a", 2)
    tensors_file(path).rename(tmp_path / "000000000002-00000000.safetensors")
    for name in ("../000000000002-00000000.safetensors", "/etc/hostname"):
        fields = json.loads(path.read_text()) | {"file": name}
        del fields["checksum"]
        path.write_text(json.dumps(fields | {"checksum": _checksum(fields)}))
        with pytest.raises(UserError, match="another step"):
            load_checkpoint(path)


def test_things_that_are_no_files_are_skipped(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "000000000009.json").mkdir()
    os.mkfifo(tmp_path / "000000000008.json")  # opening it would wait for ever
    tensors = tensors_file(save(tmp_path, 3))
    tensors.unlink()
    tensors.mkdir()
    (tmp_path / "000000000007.json").symlink_to(tmp_path / "000000000007.json")
    (tmp_path / "notes.txt").write_text("mine")
    assert load_newest(tmp_path).step == 1
    save(tmp_path, 20, keep=1)
    assert load_newest(tmp_path).step == 20 and (tmp_path / "notes.txt").exists()


def test_damaged_checkpoint_takes_no_place_of_a_whole_one(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step)
    for step in (2, 3):
        os.truncate(tensors_file(tmp_path / f"{step:012d}.json"), 10)
    save(tmp_path, 4, keep=2)
    os.truncate(tensors_file(tmp_path / "000000000004.json"), 10)
    assert load_newest(tmp_path).step == 1


def test_checkpoints_of_later_steps_are_never_removed(tmp_path):
    save(tmp_path, 500)
    save(tmp_path, 600)
    save(tmp_path, 5, keep=1)
    assert load_newest(tmp_path).step == 600 and (tmp_path / "000000000005.json").exists()


def test_write_that_ends_in_the_middle_keeps_the_earlier_ones(tmp_path):
    # A limit on the size of files stands for the full disk.
    path = save(tmp_path, 1)
    before = names(tmp_path)
    assert 2000 < tensors_file(path).stat().st_size < 3200
    code = f"""
import resource, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_checkpoint import save_checkpoint, tensors_of
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


def test_checkpoint_of_the_same_training_matches(tmp_path):
    manifest = {"skill": "pick", "policy": {"preset": "small", "sizes": [64, 64]}}
    save_checkpoint(tmp_path, 1, tensors_of(1), manifest)
    expected = manifest | {"tensors": shapes_of(with_prefix("policy", policy_tensors()))}
    check_matches(load_newest(tmp_path), expected)
    check_matches(load_newest(tmp_path), {"policy": {"preset": "small", "sizes": (64, 64)}})


def policy_tensors():
    return below_prefix("policy", tensors_of(1))


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ({"env": "e", "skill": "place"}, "it does not say its env, here it is 'e'"),
        ({"skill": "place", "policy": {}}, "its skill is 'pick', here it is 'place'"),
        (
            {"skill": "pick", "policy": {"lstm_hidden": 512, "sizes": [8]}},
            "its policy.lstm_hidden is 256, here it is 512",
        ),
        ({"policy": {"lstm_hidden": 256}}, "its policy.sizes is [64, 64], here there is none"),
        (
            {"policy": {"lstm_hidden": 256, "sizes": [64, 64], "base": 16}},
            "it has no policy.base, here it is 16",
        ),
        ({"tensors": {"policy/weight": (20, 31)}}, "its tensor policy/weight is of shape 20x30, "),
        ({"tensors": {"policy/bias": (20,)}}, "it has no tensor policy/bias, here it is of shape "),
        (
            {"tensors": {"policy/weight": (20, 30), "policy/half": (1,)}},
            "its tensor policy/is_seen of shape 2 does not exist here",
        ),
    ],
)
def test_first_difference_is_named_in_one_line(tmp_path, expected, line):
    manifest = {"skill": "pick", "policy": {"lstm_hidden": 256, "sizes": [64, 64]}}
    path = save_checkpoint(tmp_path, 1, tensors_of(1), manifest)
    with pytest.raises(UserError) as caught:
        check_matches(load_newest(tmp_path), expected)
    assert str(caught.value).startswith(f"checkpoint {path} does not fit: {line}")
    assert "\n" not in str(caught.value)


def test_milestones_and_the_best_stay(tmp_path):
    for step in range(1, 13):
        save_checkpoint(
            tmp_path, step, {}, {}, keep=2, is_milestone=step in (3, 6),
            score=("episode/success", 0.9 if step in (4, 5) else 0.01 * step),
        )  # fmt: skip
    stay = [3, 5, 6, 11, 12]  # of equal ones the newer is the best
    assert [int(path.stem) for path in sorted(tmp_path.glob("*.json"))] == stay
    assert len(list(tmp_path.glob("*.safetensors"))) == len(stay)
    assert best_checkpoint(tmp_path) == (tmp_path / "000000000005.json", "episode/success", 0.9)
    assert load_newest(tmp_path).step == 12
    save_checkpoint(tmp_path, 13, {}, {}, keep=2, score=("episode/success", 0.95))
    stay = [3, 6, 12, 13]
    assert [int(path.stem) for path in sorted(tmp_path.glob("*.json"))] == stay
    save_checkpoint(tmp_path, 6, {}, {}, keep=2)  # again: it stays what it was
    save_checkpoint(tmp_path, 14, {}, {}, keep=1)  # without a score: those of before count
    stay = [3, 6, 13, 14]
    assert [int(path.stem) for path in sorted(tmp_path.glob("*.json"))] == stay


def test_scores_of_another_metric_and_damaged_ones_are_no_best(tmp_path):
    assert best_checkpoint(tmp_path / "none") is None
    save_checkpoint(tmp_path, 1, {}, {}, score=("episode/return", 99.0))
    save_checkpoint(tmp_path, 2, {}, {}, score=("episode/success", 0.8))
    save_checkpoint(tmp_path, 3, {}, {}, score=("episode/success", 0.5))
    assert best_checkpoint(tmp_path)[0].name == "000000000002.json"
    (tmp_path / "000000000002.json").write_text("{")
    assert best_checkpoint(tmp_path)[1:] == ("episode/success", 0.5)
