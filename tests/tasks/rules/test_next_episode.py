"""One object has the rules of one episode after another, and keeps nothing of the one before."""

from copy import deepcopy

import pytest

from rearrange.tasks.rules.rulebook import make_task

FAR, REST = (1.5, 0.0, 1.0), (0.5, 0.0, 1.0)
DRAWER, DOOR = "cab_push_point_5", "fridge_push_point"
FIRST_GOAL, SECOND = (2.0, 1.0, 1.0), (0.5, 3.0, 1.0)  # of one object, and where the other lies

# The world before the episode, then what changes in each step. All end half way, such as with
# something in the hand.
EPISODES = {
    "navigate": [{}, {"base_pose": (0.5, 0.0, 0.3)}, {"base_pose": (1.0, 0.0, 0.1)}],
    "pick": [{}, {"ee": FAR}, {"held_object": 0}, {"ee": (1.2, 0.0, 1.0)}],
    "place": [
        {"held_object": 0, "ee": FAR},
        {"objects": [(2.0, 0.5, 1.0), SECOND]},
        {"objects": [FIRST_GOAL, SECOND]},
        {"held_object": None},
        {"ee": (1.2, 0.0, 1.0)},
    ],
    "open_drawer": [
        {}, {"held_marker": DRAWER, "ee": (1.0, 0.0, 1.0)}, {"joints": {"drawer_right_top": 0.42}},
    ],
    "open_fridge": [
        {}, {"held_marker": DOOR, "ee": (1.0, 0.0, 1.0)}, {"joints": {"fridge_top_door": 1.2}},
    ],
    "close_drawer": [
        {"joints": {"drawer_right_top": 0.45}}, {"ee": FAR}, {"joints": {"drawer_right_top": 0.02}},
    ],
    "close_fridge": [
        {"joints": {"fridge_top_door": 1.5}}, {"ee": FAR}, {"joints": {"fridge_top_door": 0.02}},
    ],
    "set_table": [
        {},
        {"ee": FAR},
        {"held_object": 0},
        {"objects": [FIRST_GOAL, SECOND]},
        {"held_object": None},
        {"ee": REST},
        {"held_object": 1},
    ],
}  # fmt: skip


def play(task, sim, spec, world, *steps):
    vars(sim).update(world)
    task.start(sim, spec)
    outcomes = []
    for changes in steps:
        vars(sim).update(changes)
        outcomes.append(task.step(sim, False))
    return outcomes


@pytest.mark.parametrize("name", EPISODES)
def test_the_same_episode_gives_the_same_rewards_again(sim, episode, name):
    marker = {"drawer": DRAWER, "fridge": DOOR}.get(name.partition("_")[2])
    spec = episode(name, 2 if name == "set_table" else 1, marker, name == "place")
    task = make_task(name)
    first = play(task, deepcopy(sim), spec, *EPISODES[name])
    assert not any(outcome.terminated for outcome in first)
    assert play(task, sim, spec, *EPISODES[name]) == first
