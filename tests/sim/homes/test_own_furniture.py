"""Furniture and home files of a user's own: checked with their module, mistakes are one line."""

import json
from pathlib import Path

import pytest

from rearrange.cli import main
from rearrange.errors import UserError
from rearrange.sim.home.furniture import Box, Piece, Surface
from rearrange.sim.homes import kinds
from rearrange.sim.homes.custom import CustomHome

EXAMPLE = Path(__file__).parents[3] / "examples" / "flat.json"


@pytest.fixture
def flat():
    return json.loads(EXAMPLE.read_text())


def piece(flat, kind):
    return next(entry for entry in flat["furniture"] if entry["kind"] == kind)


def test_furniture_of_ones_own_stands_in_a_home_and_holds_objects(flat, tmp_path, monkeypatch):
    def draw(rng, slot):
        low, glass = Box((0, 0, 0.3), (0.2, 0.4, 0.3)), Box((0, 0, 0.75), (0.18, 0.3, 0.15))
        lid = Surface(f"receptacle_aabb_aquarium_{slot}", (0.0, 0.0, 0.9), (0.18, 0.3), 1.0)
        return Piece(slot, (0.2, 0.4), (low, glass), (lid,))

    bed = next(entry for entry in flat["furniture"] if entry["kind"] == "bed")
    flat["furniture"][flat["furniture"].index(bed)] = {
        "kind": "aquarium", "at": bed["at"], "yaw": bed["yaw"],
    }  # fmt: skip
    path = tmp_path / "home.json"
    path.write_text(json.dumps(flat))
    with pytest.raises(UserError, match="kind must be one of armchair, .*got 'aquarium'"):
        CustomHome(str(path))
    monkeypatch.setattr(kinds.KINDS, "_entries", dict(kinds.KINDS._entries))
    kinds.KINDS.add("aquarium", draw)
    home = CustomHome(str(path))
    slot = next(slot for slot, kind in home.kinds.items() if kind == "aquarium")
    assert home.layout.pieces[slot][:2] == tuple(bed["at"])
    (lid,) = [r for r in home.layout.receptacles if r.piece == slot]
    assert lid.pos[2] == pytest.approx(0.9)


LID = Surface("block_top", (0.0, 0.0, 0.6), (0.18, 0.3), 1.0)
BLOCK = Box((0, 0, 0.3), (0.2, 0.4, 0.3))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda rng, slot: None, "have a draw that returns a Piece named .*, got None"),
        (lambda rng, slot: {}["colour"], "have a draw that returns a Piece, got KeyError"),
        (lambda rng, slot: Piece("it", (0.2, 0.4), (BLOCK,)), "returns a Piece named .*named it"),
        (
            lambda rng, slot: Piece(slot, (0.2, 0.4), (BLOCK,) * 6, (LID,)),
            "must have at most 5 boxes, got 6 from its draw",
        ),
        (
            lambda rng, slot: Piece(slot, (0.2, 0.4), (BLOCK,), (LID,)),
            "surfaces of other names than extra_.*: its draw puts the slot into them",
        ),
    ],
)
def test_mistakes_in_it_name_its_place(flat, tmp_path, monkeypatch, draw, message):
    monkeypatch.setattr(kinds.KINDS, "_entries", dict(kinds.KINDS._entries))
    kinds.KINDS.add("block", draw)
    for kind in ("bed", "plant"):
        own = piece(flat, kind)
        own.clear()
        own.update({"kind": "block", "at": [3.0, 3.0], "yaw": 0})
    path = tmp_path / "home.json"
    path.write_text(json.dumps(flat))
    with pytest.raises(UserError, match=rf"furniture\[\d+\].*{message}") as caught:
        CustomHome(str(path))
    assert "\n" not in str(caught.value)


def test_a_home_that_was_edited_is_not_written_over(tmp_path, capsys):
    words = ["homes", "generate", "split=train", "index=3", f"output={tmp_path / 'a.json'}"]
    for _ in range(2):  # the same again is no loss
        assert main(words) == 0
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(text.replace("}", " }", 1))
    assert main(words) == 2
    assert "is there already: choose another output" in capsys.readouterr().err
    assert (tmp_path / "a.json").read_text() != text


def test_a_home_with_furniture_of_ones_own_is_checked_with_its_module(
    flat, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(kinds.KINDS, "_entries", dict(kinds.KINDS._entries))
    lines = ("from rearrange.sim.homes.kinds import KINDS", 'KINDS.add("cot", KINDS["bed"])')
    (tmp_path / "my_furniture.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    piece(flat, "bed")["kind"] = "cot"
    path = tmp_path / "home.json"
    path.write_text(json.dumps(flat))
    assert main(["homes", "check", f"homes={path}"]) == 2
    assert "kind must be one of" in capsys.readouterr().err
    assert main(["homes", "check", f"homes={path}", "module=my_furniture"]) == 0
    assert "all reached" in capsys.readouterr().out
    assert main(["homes", "check", f"homes={path}", "module=nothing_there"]) == 2
    assert "cannot import 'nothing_there'" in capsys.readouterr().err
