"""Episodes that are given to a reset: what cannot be is refused, and nothing has moved."""

from dataclasses import replace

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.registry import make_env

REST = np.array([0.0] * 10 + [-1.0])


def equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_an_episode_of_another_task_is_refused():
    pick = make_env("pick", "val", depth=False)
    with pytest.raises(UserError, match="must be one of task pick, got 'place'"):
        pick.reset(options={"episode": generate_episode("place", "val", 0, 0)})


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        (
            "close_drawer",
            {"marker": "nope"},
            "marker must be one of cab_push_point_7, .* got 'nope'",
        ),
        (
            "pick",
            {"targets": {"object": 99}},
            r"object of goal0\|0 must be .* from 0 to 30, got 99",
        ),
        ("pick", {"scene": {"arm": (0.0, 0.0)}}, "arm must be 7 finite numbers"),
        ("pick", {"scene": {"base": (0.0, float("nan"), 0.0)}}, "base must be 3 finite numbers"),
        ("pick", {"scene": {"base": None}}, "base must be 3 finite numbers, got None"),
        ("pick", {"scene": {"arm": "abcdefg"}}, "arm must be 7 finite numbers, got 'abcdefg'"),
        ("place", {"start_holding": False}, "must start with its object in the hand"),
        ("pick", {"start_holding": True}, "an episode of pick must start with an empty hand"),
        ("close_fridge", {"start_holding": True}, "must start with an empty hand"),
        ("tidy_house", {"start_holding": True}, "must start with an empty hand"),
        (
            "open_drawer",
            {"marker": "fridge_push_point"},
            "the marker of open_drawer must be cab_push_point_7 or .*, got 'fridge_push_point'",
        ),
        ("open_fridge", {"marker": "cab_push_point_5"}, "must be fridge_push_point, got"),
        ("rearrange_easy", {"num_targets": 2}, "rearrange_easy has one target, got 2"),
        (
            "pick",
            {"scene": {"arm": (0.0, 2.0, *(0.0,) * 5)}},
            r"arm joint shoulder_lift must lie in \[-1.221, 1.518\], got 2",
        ),
        (
            "pick",
            {"scene": {"base": (-1.0, 3.0, 0.0)}},
            "the base must lie in the apartment .*x -1",
        ),
        ("pick", {"placed": {"pos": (0.0, 99.0, 1.0)}}, "must lie in the apartment .*y 99"),
        ("pick", {"placed": {"pos": (1.0, 1.0, -5.0)}}, "must lie in the apartment .*z -5"),
    ],
)
def test_an_episode_that_cannot_be_is_refused(task, changes, message):
    episode = generate_episode(task, "val", 0, 0)
    if "targets" in changes:
        changes = {"targets": (replace(episode.targets[0], **changes["targets"]),)}
    if "scene" in changes:
        changes = {"scene": replace(episode.scene, **changes["scene"])}
    if "placed" in changes:
        first, *rest = episode.scene.objects
        scene = replace(episode.scene, objects=(replace(first, **changes["placed"]), *rest))
        changes = {"scene": scene}
    if "num_targets" in changes:
        changes = {"targets": episode.targets * changes["num_targets"]}
    env = make_env(task, depth=False)
    with pytest.raises(UserError, match=message):
        env.reset(options={"episode": replace(episode, **changes)})
    assert env.episode is None


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("episode", {"target_index": "a"}, "target_index must be a whole number from 0 to 0, got"),
        ("episode", {"target_index": -1}, "target_index must be a whole number from 0 to 0, got"),
        ("target", {"object": 0.5}, r"the object of goal0\|0 must be a whole number"),
        ("target", {"goal": (0.0, 1.0)}, r"the goal of goal0\|0 must be 3 finite numbers, got"),
        ("target", {"start": None}, r"the start of goal0\|0 must be 3 finite numbers, got None"),
        ("placed", {"pos": (0.0, 1.0, np.nan)}, "the position of .* must be 3 finite numbers"),
        ("placed", {"quat": (1.0, 0.0, 0.0)}, "the quaternion of .* must be 4 finite numbers"),
        (
            "scene",
            {"joints": {"fridge_top_door": "wide"}},
            "joint fridge_top_door must be 1 finite",
        ),
    ],
)
def test_a_given_episode_that_cannot_be_leaves_the_running_one_as_it_was(part, changes, message):
    env, same = (make_env("pick", "val", depth=False, seed=2) for _ in "ab")
    for one in (env, same):
        one.reset(options={"index": 1})
        one.step(REST)
    episode = generate_episode("pick", "val", 0, 0)
    scene, (target, *rest) = episode.scene, episode.targets
    parts = {
        "episode": lambda: changes,
        "target": lambda: {"targets": (replace(target, **changes), *rest)},
        "scene": lambda: {"scene": replace(scene, **changes)},
        "placed": lambda: {
            "scene": replace(scene, objects=(replace(scene.objects[0], **changes),))
        },
    }
    given = replace(episode, **parts[part]())
    with pytest.raises(UserError, match=message) as caught:
        env.reset(seed=9, options={"episode": given})
    assert "\n" not in str(caught.value)
    ours, theirs = env.step(REST), same.step(REST)
    assert equal(ours[0], theirs[0]) and ours[1:] == theirs[1:]
    assert equal(env.reset()[0], same.reset()[0]) and env.seed == 2
