"""The passport's tables of hand-made results."""

import pytest

from rearrange.commands.settings import load
from rearrange.errors import UserError
from rearrange.eval.compare import Comparison
from rearrange.eval.habitat.passport import (
    TaskPassport,
    passport_json,
    passport_page,
    passport_table,
    worst_of,
)


@pytest.fixture
def found(tmp_path):
    rate = {"mean": 0.9, "low": 0.8, "high": 0.95}
    other = {"mean": 0.5, "low": 0.4, "high": 0.6}
    comparison = Comparison(
        success_a=rate, success_b=other, difference={"mean": -0.4, "low": -0.5, "high": -0.3},
        num_episodes=10, only_a=[1, 2, 3, 4], only_b=[], chance=0.1, changed_settings={},
    )  # fmt: skip
    return TaskPassport(
        task="pick", comparison=comparison,
        failures={"mujoco": {"dropped": 1}, "habitat": {"dropped": 2, "force": 3}},
        steps_per_second={"mujoco": 1234.4, "habitat": None},
        memory_mb={"mujoco": 198.6, "habitat": 700.2},
        resets={"object": 0.001, "depth_near": 0.97},
        films={"habitat": str(tmp_path / "pick-habitat/videos/episode_0000.mp4")},
        base="stock",
    )  # fmt: skip


def test_table_has_both_rates_and_what_fails_in_one_alone(found):
    text = passport_table([found])
    assert "90.0%" in text and "50.0%" in text and "-40.0   -50.0 to -30.0" in text
    assert "pick: only in habitat: force 3" in text and "only in mujoco" not in text
    assert "object 0.001, depth_near 0.97" in text and "the base in Habitat: stock" in text


def test_page_links_films_from_where_it_lies(found, tmp_path):
    text = passport_page([found], tmp_path)
    assert "src='pick-habitat/videos/episode_0000.mp4'" in text
    assert "1234" in text and "not measured" in text and "199" in text and "700" in text
    assert passport_json([found])["tasks"][0]["failures"]["habitat"]["force"] == 3


def test_worst_is_the_episode_that_agrees_least():
    found = worst_of([{"object": 0.1, "depth_near": 0.9}, {"object": 0.3, "depth_near": 1.0}, {}])
    assert found == {"object": 0.3, "depth_near": 0.9}


@pytest.mark.parametrize(
    "words, line",
    [
        (["num_episodes=0"], "num_episodes must be at least 1, got 0"),
        (["habitat.base=fast"], "habitat.base must be driven or stock, got fast"),
        (["skills=pick,pick"], "must not name anything twice"),
        (["skills=[]", "tasks=[]"], "skills or tasks must name at least one"),
    ],
)
def test_mistakes_are_one_line(words, line):
    with pytest.raises(UserError, match=line):
        load("passport", words)
