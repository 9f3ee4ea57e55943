"""Evaluations side by side: figures worked out by hand, and what does not compare."""

import json

import pytest

from rearrange import cli
from rearrange.errors import UserError
from rearrange.eval.compare import compare, read_result, sign_test

SETTINGS = {
    "task": "pick", "agent": "oracle", "split": "val", "seed": 0, "homes": "hab", "episodes": None,
    "looks": "none", "is_sampling": False, "max_failures": 3, "limits": {}, "oracle_skills": [],
    "trained_skills": {}, "versions": {}, "code": "0" * 64,
}  # fmt: skip


def result(folder, won, **settings):
    """An evaluation's folder: an episode for each sign of `won`, two of them to an apartment."""
    folder.mkdir()
    content = {"settings": SETTINGS | settings, "acting": []}
    (folder / "settings.json").write_text(json.dumps(content))
    lines = [
        {"index": index, "scene": f"s{index // 2}", "success": sign == "+", "stages": {},
         "failure": None if sign == "+" else "time_limit", "steps": 9, "force": 0.0,
         "path_length": 1.0, "attempts": []}
        for index, sign in enumerate(won)
    ]  # fmt: skip
    (folder / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_episodes_are_paired_by_their_index(tmp_path):
    a = read_result(result(tmp_path / "a", "++--+-++"))
    b = read_result(result(tmp_path / "b", "+-+++++"))  # one episode less
    found = compare(a, b)
    assert found.num_episodes == 7 and (found.only_a, found.only_b) == ([1], [2, 3, 5])
    assert found.success_a["mean"] == pytest.approx(4 / 7)
    assert found.success_b["mean"] == pytest.approx(6 / 7)
    assert found.difference["mean"] == pytest.approx(2 / 7)
    assert found.difference["low"] < 2 / 7 < found.difference["high"]
    assert found.chance == pytest.approx(5 / 8)  # 1 of 4 or less, either way: 2 (1 + 4) / 16
    assert found.changed_settings == {}


def test_an_evaluation_compared_with_itself_does_not_differ_as_far_as_eight_episodes_tell(tmp_path):
    a = read_result(result(tmp_path / "a", "++--+-++"))
    found = compare(a, a)
    bound = 1.959964**2 / (8 + 1.959964**2)  # Tango's where no episode changed
    assert found.difference == pytest.approx({"mean": 0.0, "low": -bound, "high": bound}, abs=1e-9)
    assert found.chance == 1.0


@pytest.mark.parametrize(
    ("losses", "wins", "chance"),
    [(0, 0, 1.0), (0, 6, 2 / 64), (9, 3, 2 * (1 + 12 + 66 + 220) / 4096), (7, 7, 1.0)],
)
def test_the_sign_test_counts_the_coins_that_fall_as_unevenly(losses, wins, chance):
    assert sign_test(losses, wins) == pytest.approx(chance)


def test_more_than_a_thousand_coins_are_counted_too():
    assert sign_test(0, 1100) < 1e-300  # 2 / 2**1100, which no float holds
    assert sign_test(550, 550) == 1.0
    assert 0.0 < sign_test(500, 600) < 0.01  # three standard deviations


@pytest.mark.parametrize(("name", "value"), [("split", "test"), ("seed", 1), ("task", "place")])
def test_other_episodes_do_not_compare(tmp_path, name, value):
    a = read_result(result(tmp_path / "a", "+-"))
    b = read_result(result(tmp_path / "b", "+-", **{name: value}))
    with pytest.raises(UserError, match=f"{name} is .* in .*a and {value} in"):
        compare(a, b)


def test_a_task_compares_with_itself_in_a_module(tmp_path):
    a = read_result(result(tmp_path / "a", "+-"))
    b = read_result(result(tmp_path / "b", "+-", task="my_tasks:pick"))
    assert compare(a, b).changed_settings == {"task": ("pick", "my_tasks:pick")}


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("scene", "s9", "episode 2 has s1 in .*a and s9 in .*b; evaluate one of them anew"),
        ("targets", {"t|0": ["mug", "sofa", "sink"]}, "episode 2 has can sofa sink in .* and mug"),
        ("targets", {"t|0": ["can", "sofa", "bed"]}, "episode 2 has can sofa sink in .* sofa bed"),
    ],
)
def test_what_was_drawn_otherwise_under_the_same_number_does_not_compare(
    tmp_path, name, value, line
):
    """By a program that draws episodes in another way."""
    folders = []
    for label in "ab":
        folder = result(tmp_path / label, "++--")
        lines = [json.loads(one) for one in (folder / "episodes.jsonl").read_text().splitlines()]
        for one in lines:
            one["targets"] = {"t|0": ["can", "sofa", "sink"]}
        if label == "b":
            lines[2][name] = value
        (folder / "episodes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        folders.append(folder)
    a, b = map(read_result, folders)
    assert compare(a, a).num_episodes == 4
    with pytest.raises(UserError, match=line):
        compare(a, b)


def test_the_same_file_of_episodes_compares_whatever_split_and_seed_say(tmp_path, capsys):
    file = {"episodes": "ab" * 32}
    result(tmp_path / "a", "+-", **file)
    result(tmp_path / "b", "++", **file, split="test", seed=3, homes="procedural")
    assert cli.main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("pick, one file of episodes: 2 episodes that both have")
    assert "split: val -> test" in out and "seed: 0 -> 3" in out
    a = read_result(tmp_path / "a")
    for name, other in (("c", "cd" * 32), ("d", None)):
        b = read_result(result(tmp_path / name, "+-", episodes=other))
        for pair in ((a, b), (b, a)):
            with pytest.raises(UserError, match="episodes is "):
                compare(*pair)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("seed", "x", "int"), ("seed", True, "int"), ("limits", 3, "dict"), ("agent", None, "str"),
        ("split", ["val"], "str"), ("oracle_skills", {}, "list"), ("is_sampling", 0, "bool"),
    ],
)  # fmt: skip
def test_settings_of_a_wrong_kind_are_one_line_that_names_them(tmp_path, capsys, name, value, kind):
    a = result(tmp_path / "a", "+-")
    spoilt = SETTINGS | {name: value}
    if value is None:
        del spoilt[name]
    b = result(tmp_path / "b", "+-")
    (b / "settings.json").write_text(json.dumps({"settings": spoilt, "acting": []}))
    for folders in ((a, b), (b, a)):
        assert cli.main(["compare", *map(str, folders)]) == 2
        error = capsys.readouterr().err
        assert f"damaged {b}/settings.json: {name} must be of kind {kind}, got" in error
        assert error.count("\n") == 1


def test_a_negative_seed_and_a_success_with_a_failure_are_damage(tmp_path, capsys):
    a, b = result(tmp_path / "a", "+-"), result(tmp_path / "b", "+-", seed=-1)
    assert cli.main(["compare", str(b), str(b)]) == 2
    assert (
        f"damaged {b}/settings.json: seed must not be negative, got -1" in capsys.readouterr().err
    )
    lines = [json.loads(line) for line in (a / "episodes.jsonl").read_text().splitlines()]
    for spoilt in (lines[0] | {"success": False}, lines[1] | {"success": True}):
        (a / "episodes.jsonl").write_text(json.dumps(spoilt) + "\n")
        assert cli.main(["compare", str(a), str(a)]) == 2
        assert "line 1 must be the record of an episode" in capsys.readouterr().err


def test_the_command_prints_and_writes_what_it_found(tmp_path, capsys):
    digests = ({"pick": "ab" * 32}, {"pick": "cd" * 32})
    a = result(tmp_path / "a", "++--+-++", trained_skills=digests[0])
    b = result(tmp_path / "b", "+-++++++", looks="own", trained_skills=digests[1])
    arguments = ["compare", str(a), str(b), f"output={tmp_path / 'out.json'}"]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "8 episodes that both have" in out and "3 episodes only B solved, 1 only A" in out
    assert "looks: none -> own" in out and "trained_skills.pick: abababab -> cdcdcdcd" in out
    assert "     2  the other: ran out of time" in out
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert row["only_b"] == [2, 3, 5] and row["a"] == str(a)


@pytest.mark.parametrize(
    "line",
    ["garbage", "null", "{}", '{"index": 1}', "\0\0", '{"force": NaN}', '{"steps": "9"}', None],
)
def test_a_damaged_line_is_named_and_an_unfinished_last_one_left_out(tmp_path, capsys, line):
    a, b = result(tmp_path / "a", "+-+"), result(tmp_path / "b", "+-+")
    lines = (b / "episodes.jsonl").read_text().splitlines()
    if line is None:
        line = json.dumps(json.loads(lines[1]) | {"more": 1})
    for place in (1, 2):
        spoilt = [*lines[:place], line, *lines[place + 1 :]]
        (b / "episodes.jsonl").write_text("\n".join(spoilt) + "\n")
        assert cli.main(["compare", str(a), str(b)]) == 2
        error = capsys.readouterr().err
        assert f"{b}/episodes.jsonl, line {place + 1} must be the record" in error
        assert error.count("\n") == 1
    (b / "episodes.jsonl").write_text("\n".join([*lines[:2], line]))
    assert cli.main(["compare", str(a), str(b)]) == 0
    assert "2 episodes that both have" in capsys.readouterr().out


@pytest.mark.parametrize("spoil", ["settings.json", "episodes.jsonl"])
def test_a_folder_that_is_none_is_named_in_one_line(tmp_path, capsys, spoil):
    a, b = result(tmp_path / "a", "+-"), result(tmp_path / "b", "+-")
    for content in (None, "", "{]"):
        if content is None:
            (b / spoil).unlink()
        else:
            (b / spoil).write_text(content)
        assert cli.main(["compare", str(a), str(b)]) == 2
        error = capsys.readouterr().err
        assert str(b) in error and error.count("\n") == 1
    assert cli.main(["compare", str(a)]) == 2
    assert "at least two folders" in capsys.readouterr().err


def test_habitat_labs_own_episodes_are_no_others_and_only_themselves(tmp_path):
    def there(name, data, episodes):
        habitat = {"data": data, "episodes": episodes}
        return read_result(result(tmp_path / name, "+-", backend="habitat", habitat=habitat))

    ours = read_result(result(tmp_path / "ours", "+-"))
    own, again = (
        there("own", "habitat-lab's own", "a" * 64),
        there("again", "habitat-lab's own", "a" * 64),
    )
    assert compare(ours, there("export", "export", "b" * 64)).num_episodes == 2
    assert compare(own, again).num_episodes == 2
    for other in (ours, there("others", "habitat-lab's own", "c" * 64)):
        with pytest.raises(UserError, match="different episodes in Habitat"):
            compare(own, other)
    damaged = read_result(result(tmp_path / "damaged", "+-", habitat="there"))
    with pytest.raises(UserError, match="habitat must be an object, got 'there'"):
        compare(own, damaged)


def test_an_evaluation_of_another_environment_is_not_called_damaged(tmp_path, capsys):
    folder = result(tmp_path / "a", "+")
    (folder / "settings.json").write_text('{"settings": {"env": "CartPole-v1"}, "acting": []}')
    (folder / "episodes.jsonl").write_text('{"index": 0, "total_return": 9.0}\n')
    assert cli.main(["compare", str(folder), str(folder)]) == 2
    assert "holds no episodes of a task" in capsys.readouterr().err
