"""The budget of restarts, and what is counted of resets that failed."""

import numpy as np

from rearrange.ver.workers.environment_worker import WorkerCfg
from rearrange.ver.workers.restarts import FailedResets, RestartBudget, is_left_out
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.spaces import action_spec, observation_spec
from rearrange.workloads.faulty import FaultyEnv


def test_a_restart_comes_back_after_a_while_and_never_more_than_there_were():
    now = [0.0]
    budget = RestartBudget(2, 60.0, lambda: now[0])
    assert [budget.take() for _ in range(3)] == [True, True, False]
    now[0] = 59.0
    assert not budget.take()
    now[0] = 61.0
    assert [budget.take(), budget.take()] == [True, False]
    now[0] = 1e6
    assert [budget.take() for _ in range(3)] == [True, True, False]
    assert not RestartBudget(0, 60.0, lambda: now[0]).take()


def test_what_was_being_reset_is_counted_once_for_each_break():
    spec = observation_spec(FaultyEnv.observation_space), action_spec(FaultyEnv.action_space)
    slots = StepSlots.allocate(SlotLayout(2, *spec, 0))
    failed = FailedResets(WorkerCfg(0, (), "off", 1, failed_resets={5: 1}).failed_resets)
    failed.note(slots, [0, 1])
    assert failed.counts == {5: 1} and not is_left_out(failed.counts, 5)
    slots.resetting[:] = np.array([0, 6])  # environment 0 was stepping
    failed.note(slots, [0, 1])
    failed.note(slots, [0, 1])
    assert failed.counts == {5: 2} and is_left_out(failed.counts, 5)
    slots.resetting[0] = 1  # seed 0 is one, too
    failed.note(slots, [0])
    assert failed.counts == {5: 2, 0: 1}
