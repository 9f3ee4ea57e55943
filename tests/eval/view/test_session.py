"""Playing without a browser: the clock, the keys, who drives, and what is said of it."""

from dataclasses import replace

import numpy as np
import pytest
from player import EPISODE, Player

from rearrange.configs.schema import TaskCfg
from rearrange.errors import UserError
from rearrange.eval.view.instructions import instruct
from rearrange.eval.view.keys import DRIVING, Person
from rearrange.eval.view.messages import Said
from rearrange.eval.view.moments import setup
from rearrange.eval.view.session import Session
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules import pick as rules
from rearrange.tasks.rules.names import SKILL_TASKS


def said(**more):
    return Said(frozenset(), **more)


def test_the_clock_starts_with_the_first_key_that_moves_the_robot(session, page):
    session.advance(5)
    session.hear(said(pressed=("p",)))
    session.hear(said(pressed=("p",)))
    page.held_keys = frozenset({"Shift"})
    session.advance(5)
    assert session.look().state["clock"] == 0.0
    page.held_keys = frozenset({"w"})
    session.advance(6)
    assert session.look().state["clock"] == 0.2  # s


@pytest.mark.parametrize("task", SKILL_TASKS)
def test_who_plays_is_told_to_press_x_where_only_that_ends_the_task(task):
    env = make_env(task, "val", depth=False)
    env.reset(options={"index": 0})
    text = instruct(env.sim, env.episode).text
    assert ("press X" in text) == (task not in ("pick", "place"))


def test_pick_is_played_to_success_by_the_documented_keys(session, page):
    documented = {key for entry in DRIVING for key in entry.keys}
    player = Player()
    state = session.look().state
    assert state["instruction"] == (
        "Pick up the master chef can on the table, then bring the arm back to rest (hold C)."
    )
    while not session.is_over and session.steps < 1800:
        move = player.move(session.look().state)
        assert {*move.held, *move.pressed} <= documented
        session.hear(said(pressed=(*move.pressed, *move.held)))
        page.held_keys = move.held
        session.advance(max(1, round(30 * move.seconds)))
        page.held_keys = frozenset()
        session.advance(4)  # it takes a look
    state = session.look().state
    assert state["result"] == "success"
    assert state["clock"] < 60.0
    assert session.stage.env.sim.object_kind(session._instruction.focus).name == (
        "002_master_chef_can"
    )
    session.advance(3)
    assert session.look().state["clock"] == state["clock"]  # it is over


def test_no_time_limit_ends_a_play_unless_it_is_asked_for(session, page):
    page.held_keys = frozenset({"a"})
    session.advance(320)  # Pick's limit is 300
    assert session.look().state["result"] == ""
    session.hear(said(ask="limit", value=True))
    session.advance(299)
    assert session.look().state["result"] == ""
    session.advance(1)
    assert session.look().state["result"] == "ran out of time while picking up the master chef can"
    session.hear(said(ask="limit", value=False))


def test_pause_and_single_steps(session, page):
    page.held_keys = frozenset({"w"})
    session.advance(3)
    session.hear(said(pressed=("p",)))
    session.advance(3)
    assert session.steps == 3
    session.hear(said(pressed=(".",)))
    assert session.steps == 4 and session.look().state["is_paused"]
    session.hear(said(ask="pause"))
    session.advance(3)
    assert session.steps == 7


def test_an_agent_takes_over_in_the_middle_and_hands_back(session, page):
    page.held_keys = frozenset({"d"})
    session.advance(15)
    pose = session.stage.env.sim.base_pose
    session.hear(said(ask="drive", value="teacher"))
    assert session.stage.env.sim.base_pose == pose  # it goes on from here
    assert session.look().state["driver"] == "teacher"
    session.advance(20)
    session.hear(said(pressed=("o",)))
    assert isinstance(session.stage.agent, Person)
    assert session.steps == 35 and session.stage.driven.drivers == ["you", "teacher"]
    session.advance(5)
    assert len(session.stage.driven.actions) == 40


def test_who_does_not_fit_is_refused_in_one_line_and_nothing_changes(session, page):
    session.advance(2)
    agent = session.stage.agent
    session.hear(said(ask="drive", value="nobody"))
    assert "unknown agent 'nobody'" in session.look().state["message"]
    assert session.stage.agent is agent and session.stage.driver == "you"
    for ask, value in (("task", "nonsense"), ("split", 3), ("episode", -1), ("speed", 99)):
        session.hear(said(ask=ask, value=value))
        assert ask in session.look().state["message"]


def test_another_episode_task_and_split(session, page):
    session.hear(said(pressed=("Enter",)))
    assert session.look().state["index"] == EPISODE + 1
    session.hear(said(ask="episode", value=3))
    first = session.stage.env.episode
    session.hear(said(pressed=("Backspace",)))
    assert session.stage.env.episode == first and first.index == 3
    session.hear(said(ask="split", value="train"))
    session.hear(said(ask="task", value="navigate"))
    state = session.look().state
    assert (state["task"], state["split"], state["index"]) == ("navigate", "train", 0)
    assert "press X once you are there" in state["instruction"]
    page.held_keys = frozenset({"w"})
    session.advance(2)
    session.hear(said(pressed=("x",)))
    session.advance(2)
    assert session.look().state["result"].startswith("stopped before")
    session.hear(said(ask="split", value="val"))
    session.hear(said(ask="task", value="pick"))


def test_the_mouse_drags_the_hand_along_the_picture(session, page):
    before = session.stage.env.sim.ee_pos_b
    session.hear(said(hand=(0.0, 40.0, 0.0)))  # 40 pixels up
    session.advance(40)
    moved = session.stage.env.sim.ee_pos_b - before
    scale = 0.0012 * session.camera.distance
    np.testing.assert_allclose(moved, [0.0, 0.0, 40 * scale], atol=0.015)


def test_every_key_of_the_page_is_a_key_of_the_program():
    shown = [row[0] for rows in setup()["keys"].values() for row in rows]
    assert len(shown) == len(set(shown))


def test_an_episode_that_cannot_be_had_leaves_the_world_of_before(session, monkeypatch):
    """Of another task, for which another environment has been made by then."""
    before = session.stage.env

    def refused(self, *args, **kwargs):
        raise UserError("there must be room for the episode")

    monkeypatch.setattr(type(before), "reset", refused)
    session.hear(said(ask="task", value="place"))
    state = session.look().state
    assert state["message"] == "there must be room for the episode"
    assert session.stage.env is before and before.episode is not None
    assert (state["task"], session.stage.cfg.task.name) == ("pick", "pick")  # for what is kept


def test_an_agent_asks_once_for_an_episode_that_there_is_not(session, monkeypatch):
    session.hear(said(ask="drive", value="random"))
    monkeypatch.setattr(session.stage.cfg, "agent", "random")
    session.is_over, session._ended = True, -1e9
    assert session._is_next_due()

    def refused(self, *args, **kwargs):
        raise UserError("there is no index 7")

    monkeypatch.setattr(type(session.stage.env), "reset", refused)
    session.begin(7)
    assert session.look().state["message"] == "there is no index 7"
    assert session.is_over and not session._is_next_due()
    session._ended = 0.0
    monkeypatch.setattr("rearrange.eval.view.session.time.monotonic", lambda: 1.0)  # in the pause
    session.begin(8)
    monkeypatch.setattr("rearrange.eval.view.session.time.monotonic", lambda: 9.0)
    assert session._is_next_due()


def test_a_task_of_a_module_is_shown_under_its_name(session, page):
    own = Session(replace(session.stage.cfg, task=TaskCfg(name=f"{rules.__name__}:pick")), page)
    state = own.look().state
    assert state["task"] == "pick" in setup()["tasks"]
    assert state["drivers"] == session.look().state["drivers"] and "learned" in state["drivers"]
