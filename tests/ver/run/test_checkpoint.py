"""What is saved comes back, fits or says why not; the newest, the best and milestones stay."""

import pytest
import torch

from rearrange.errors import UserError
from rearrange.ver.run.checkpoint import (
    below_prefix,
    best_checkpoint,
    load_newest,
    save_checkpoint,
    with_prefix,
)
from rearrange.ver.run.checkpoint_match import check_matches, shapes_of
from tests.ver.run.saved_checkpoints import assert_is_whole, names, save, tensors_of


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


def test_checkpoints_of_later_steps_are_never_removed(tmp_path):
    save(tmp_path, 500)
    save(tmp_path, 600)
    save(tmp_path, 5, keep=1)
    assert load_newest(tmp_path).step == 600 and (tmp_path / "000000000005.json").exists()


def test_checkpoint_of_the_same_training_matches(tmp_path):
    manifest = {"skill": "pick", "policy": {"preset": "small", "sizes": [64, 64]}}
    save_checkpoint(tmp_path, 1, tensors_of(1), manifest)
    expected = manifest | {"tensors": shapes_of(with_prefix("policy", policy_tensors()))}
    check_matches(load_newest(tmp_path), expected)
    check_matches(load_newest(tmp_path), {"policy": {"preset": "small", "sizes": (64, 64)}})


def test_checkpoint_matches_under_the_old_name_of_a_setting(tmp_path):
    save_checkpoint(tmp_path, 1, tensors_of(1), {"identity": {"policy": {"has_levelled": True}}})
    checkpoint = load_newest(tmp_path)
    check_matches(checkpoint, {"identity": {"policy": {"base_frame_vectors": True}}})
    with pytest.raises(UserError, match="identity.policy.base_frame_vectors is True, here it is"):
        check_matches(checkpoint, {"identity": {"policy": {"base_frame_vectors": False}}})


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
