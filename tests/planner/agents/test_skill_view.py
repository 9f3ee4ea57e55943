"""What a skill gets in a long task is bit for bit what its own task's sensors give."""

from dataclasses import replace

import numpy as np
import pytest

from rearrange.planner.agents.skill_view import SkillView
from rearrange.tasks.observations import Sensors
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.home import HOME_MARKERS
from rearrange.tasks.rules.rulebook import make_task

CASES = [
    ("navigate", {"target": 1}, {"target_index": 1}),
    ("navigate", {"target": 2, "is_at_goal": True}, {"target_index": 2, "start_holding": True}),
    ("pick", {"target": 2}, {"target_index": 2}),
    ("place", {"target": 0}, {"target_index": 0}),
    ("open_drawer", {"marker": 0}, {"marker": HOME_MARKERS[0]}),
    ("close_drawer", {"marker": 0}, {"marker": HOME_MARKERS[0]}),
    ("open_fridge", {"marker": 1}, {"marker": HOME_MARKERS[1]}),
    ("close_fridge", {"marker": 1}, {"marker": HOME_MARKERS[1]}),
]


def own_sensors(skill, episode, options):
    sensors = Sensors(make_task(skill))
    sensors.start(replace(episode, task=skill, **options))
    return sensors


def drive_about(env, steps):
    """What the policy is given after each of some random steps."""
    rng = np.random.default_rng(4)
    for _ in range(steps):
        action = rng.uniform(-1.0, 1.0, 11).astype(np.float32)
        action[10] = -1.0
        yield env.step(action)[0]


@pytest.mark.parametrize("delay", [0, 1])
def test_a_view_equals_the_sensors_of_the_skills_own_task(delay):
    env = make_env("prepare_groceries", "val", camera_size=16, observation_delay=delay)
    env.reset(options={"index": 1})
    cases = [(SkillView(s, **view), own_sensors(s, env.episode, own)) for s, view, own in CASES]
    before = [sensors.read(env.sim) for _, sensors in cases]
    for seen in drive_about(env, 8):
        after = [sensors.read(env.sim) for _, sensors in cases]
        for (view, _), late, now in zip(cases, before, after, strict=True):
            wanted, got = (late if delay else now), view(seen)
            assert set(got) == {*wanted, "head_depth"}
            for name, value in wanted.items():
                assert np.array_equal(got[name], value), name
                assert got[name].dtype == value.dtype
        before = after


def test_a_task_of_one_object_has_its_sensors_at_the_first_place():
    env = make_env("set_table_easy", "val", depth=False, observation_delay=0)
    seen, _ = env.reset(options={"index": 0})
    for skill in ("navigate", "pick", "place"):
        own = own_sensors(skill, env.episode, {}).read(env.sim)
        got = SkillView(skill)(seen)
        assert all(np.array_equal(got[name], own[name]) for name in own) and set(got) == set(own)


def test_start_sensors_keep_to_where_an_object_was():
    """As Habitat's: an object that was moved is not followed."""
    env = make_env("set_table_easy", "val", depth=False, observation_delay=0)
    seen, _ = env.reset(options={"index": 0})
    before = SkillView("pick")(seen)["obj_start_sensor"].copy()
    target = env.episode.targets[0]
    env.sim.snap_object(target.object)
    assert np.linalg.norm(env.sim.object_pos_w(target.object) - target.start) > 0.5
    still = np.zeros(11, np.float32)
    seen = env.step(still)[0]
    np.testing.assert_allclose(SkillView("pick")(seen)["obj_start_sensor"], before, atol=0.02)
