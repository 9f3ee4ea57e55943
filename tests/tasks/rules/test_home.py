"""The long tasks: reward target by target, stages, success; worked out by hand on plain numbers."""

import pytest

from rearrange.tasks.rules.rulebook import make_task


@pytest.fixture
def task(sim, episode):
    task = make_task("set_table")
    task.start(sim, episode("set_table", num_targets=2))
    return task


def reward(task, sim, is_stop=False):
    return task.step(sim, is_stop).reward


def test_reward_leads_through_the_targets_and_then_stops(sim, task):
    sim.ee = (1.5, 0.0, 1.0)  # from 1.5 m to 0.5 m of object 0
    assert reward(task, sim) == pytest.approx(1.0 - 0.01)
    sim.held_object = 0
    assert reward(task, sim) == pytest.approx(1.0 - 0.01)
    sim.objects[0] = (2.0, 0.9, 1.0)  # 0.9 m closer to (2, 1, 1)
    assert reward(task, sim) == pytest.approx(0.9 - 0.01)
    sim.held_object = None
    assert reward(task, sim) == pytest.approx(1.0 - 0.01)
    sim.ee = (0.5, 2.0, 1.0)  # now object 1 at (0.5, 3, 1) counts: from sqrt(10) m to 1 m
    assert reward(task, sim) == pytest.approx(10**0.5 - 1.0 - 0.01)
    sim.held_object = 1
    assert reward(task, sim) == pytest.approx(1.0 - 0.01)
    sim.objects[1], sim.held_object = (-1.0, 3.0, 1.0), None
    assert reward(task, sim) == pytest.approx(1.0 - 0.01)
    for _ in range(3):
        assert reward(task, sim) == pytest.approx(-0.01)  # no pay for ever (defect 9)
    outcome = task.step(sim, True)
    assert outcome.success and outcome.terminated and outcome.reward == pytest.approx(99.99)


@pytest.mark.parametrize("distance, is_paid", [(0.14, True), (0.16, False)])
def test_a_place_within_15_cm_of_the_goal_pays(sim, task, distance, is_paid):
    sim.held_object = 0
    reward(task, sim)
    sim.objects[0] = (2.0, 1.0 - distance, 1.0)
    reward(task, sim)
    sim.held_object = None
    assert reward(task, sim) == pytest.approx(1.0 * is_paid - 0.01)


def test_a_second_pick_of_the_same_target_pays_nothing(sim, task):
    for expected in (1.0, 0.0):
        sim.held_object = 0
        assert reward(task, sim) == pytest.approx(expected - 0.01)
        sim.held_object = None
        assert reward(task, sim) == pytest.approx(-0.01)


def test_a_broken_hold_drops_and_goes_on(sim, task):
    sim.held_object = 0
    reward(task, sim)
    sim.hold_violation = True
    outcome = task.step(sim, False)
    assert not outcome.terminated and not sim.is_holding
    assert outcome.reward == pytest.approx(-0.01 - 10.0)


def test_a_hold_that_breaks_on_the_step_that_calls_stop_is_no_success(sim, task):
    sim.objects = [(2.0, 1.0, 1.0), (-1.0, 3.0, 1.0)]  # all at their goals
    sim.held_object, sim.hold_violation = 1, True
    assert task.step(sim, True)[1:] == (False, True, "stop_without_success")
    assert not sim.is_holding


def test_stages_are_sticky_and_in_order(sim, task):
    assert list(task.stages) == ["stage_0_5", "stage_1", "stage_1_5", "stage_2"]
    sim.held_object = 1  # before object 0 is placed: no stage
    task.step(sim, False)
    assert not any(task.stages.values())
    sim.held_object = 0
    task.step(sim, False)
    sim.objects[0] = (2.0, 0.8, 1.0)  # at the goal, but still held
    task.step(sim, False)
    assert task.stages == {
        "stage_0_5": True,
        "stage_1": False,
        "stage_1_5": False,
        "stage_2": False,
    }
    sim.held_object = None
    task.step(sim, False)
    sim.objects[0] = (9.0, 0.0, 1.0)
    task.step(sim, False)
    assert task.stages["stage_1"] and not task.stages["stage_1_5"]


@pytest.mark.parametrize(
    "first, held, success", [(0.29, None, True), (0.31, None, False), (0.0, 1, False)]
)
def test_success_is_every_object_within_0_3_m_and_an_empty_hand(sim, task, first, held, success):
    sim.objects = [(2.0, 1.0 + first, 1.0), (-1.0, 3.0, 1.0)]
    sim.held_object = held
    assert not task.step(sim, False).success
    outcome = task.step(sim, True)
    assert outcome.terminated and outcome.success == success


def test_success_scale_asks_for_so_much_of_the_0_3_m(sim, task):
    sim.objects = [(2.0, 1.2, 1.0), (-1.0, 3.0, 1.0)]  # 0.2 m from its goal
    task.set_scales(0.5, 1.0)
    assert not task.step(sim, True).success and not task.stages["stage_1"]
    task.set_scales(1.0, 1.0)
    assert task.step(sim, True).success and task.stages["stage_1"]
