"""Frames show the world that they are given: depth, map, words."""

from types import SimpleNamespace

import fake_world
import numpy as np
import pytest

from rearrange.eval.film.film import caption, describe_failure
from rearrange.eval.film.frames import HEIGHT, SIDE, VIEW, WIDTH, FrameMaker
from rearrange.eval.film.lettering import Caption, around
from rearrange.sim.robot import fetch
from rearrange.sim.scene import Scene
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import Target


@pytest.fixture(scope="module")
def world():
    sim = Simulation()
    sim.reset(Scene("v3_sc3_staging_03", (), (5.0, 3.5, 0.0), tuple(fetch.ARM_START)))
    episode = SimpleNamespace(task="tidy_house", targets=(), marker=None)
    return SimpleNamespace(sim=sim, episode=episode)


def test_frame_holds_its_parts_and_words_change_only_their_place(world):
    first = FrameMaker(world, "plain").draw(
        Caption("title", "pick(a)", ["+ navigate(a)", "> pick(a)"], {"stage_1": False})
    )
    assert first.shape == (HEIGHT, WIDTH, 3) and first.dtype == np.uint8
    second = FrameMaker(world, "plain").draw(
        Caption("other", "pick(a)", ["+ navigate(a)", "> pick(a)"], {"stage_1": True})
    )
    differs = (first != second).any(axis=2)
    assert differs[VIEW[1] :, : VIEW[0]].any() and not differs[: VIEW[1]].any()


def test_depth_picture_is_bright_where_it_is_near(world):
    maker = FrameMaker(world, "plain")
    picture = maker.head_depth()
    assert picture.shape == (SIDE, SIDE, 3)
    # The camera looks down by 22 degrees: the floor at the bottom is nearer than what is ahead.
    assert picture[-1].mean() > picture[SIDE // 4].mean() + 30


def test_map_shows_the_robot_where_it_is(world):
    maker = FrameMaker(world, "plain")
    before = np.asarray(maker.floor_map()).astype(int)
    world.sim.set_robot((7.0, 3.5, 0.0), world.sim.arm_qpos)
    after = np.asarray(maker.floor_map()).astype(int)
    moved = np.abs(before - after).sum(axis=2) > 100
    columns = np.flatnonzero(moved.any(axis=0)) / before.shape[1] * 9.2 - 0.1  # m along x
    assert columns.min() == pytest.approx(4.7, abs=0.4) and columns.max() == pytest.approx(
        7.4, abs=0.4
    )
    world.sim.set_robot((5.0, 3.5, 0.0), world.sim.arm_qpos)


def test_plan_lines_around_the_running_one_are_shown():
    plan = [f"  step {letter}" for letter in "abcdefg"]

    def run(place):
        return [*plan[:place], f"> step {'abcdefg'[place]}", *plan[place + 1 :]]

    assert around(run(0)) == (["> step a", *plan[1:4]], 0)
    assert around(run(3)) == ([plan[2], "> step d", *plan[4:6]], 1)
    assert around(run(6)) == ([*plan[3:6], "> step g"], 3)
    assert around(plan) == (plan[:4], None)
    assert around([f"+ {step}" for step in "abcdef"]) == ([f"+ {step}" for step in "cdef"], None)
    assert around([]) == ([], None)


def test_a_caption_is_in_words():
    target = Target(0, "any_targets|0", (0.0,) * 3, (1.0,) * 3, *fake_world.RECEPTACLES)
    scene = SimpleNamespace(layout_id="a", objects=(SimpleNamespace(kind="024_bowl"),))
    episode = SimpleNamespace(task="tidy_house", index=4, scene=scene, targets=(target,))
    said = caption("Tidy", episode, fake_world.FakeAgent(), {"stages": {"stage_1": True}}, "", "")
    assert said.title == "Tidy, episode 4, a" and said.stages == {"stage_1": True}
    assert said.plan == ["+ pick up the bowl", "> bowl -> sofa"]
    assert said.status == "bowl -> sofa: lowering"
    ended = describe_failure(episode, fake_world.FakeAgent(), {"failure": "time_limit"})
    assert ended == "ran out of time while placing the bowl"
