"""A damaged checkpoint is skipped and named, whatever is wrong with its files."""

import json
import logging
import os

import pytest

from rearrange.errors import UserError
from rearrange.ver.run import checkpoint
from rearrange.ver.run.checkpoint import (
    load_checkpoint,
    load_newest,
)
from tests.ver.run.saved_checkpoints import (
    assert_is_whole,
    save,
    tensors_file,
)


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


def test_what_a_training_replaces_while_it_is_read_is_not_damaged(tmp_path, caplog, monkeypatch):
    save(tmp_path, 1, keep=1)
    load = checkpoint.load_checkpoint

    def beaten(path):
        if path.name.startswith("000000000001"):
            save(tmp_path, 2, keep=1)  # between the look at the folder and the reading
        return load(path)

    monkeypatch.setattr(checkpoint, "load_checkpoint", beaten)
    with caplog.at_level(logging.WARNING):
        assert load_newest(tmp_path).step == 2
    assert not caplog.text


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
