"""When the policy serves those that wait: numbers counted by hand, and a calculated workload."""

import pytest

from rearrange.ver.rollout.batching import Batching, RunningMean


def test_a_larger_batch_is_waited_for_no_longer_than_it_saves():
    chosen, default = Batching(4, 0, 16), Batching(0, 0, 16)
    for batching in (chosen, default):
        batching.answer_s.add(0.1)
        batching.policy_s.add(0.004)
    assert (chosen.least, chosen.most) == (4, 24) and (default.least, default.most) == (10, 24)
    assert chosen.wait_s == 0.05 and default.wait_s == 0.004
    default.policy_s.add(1.0)  # never longer than half a step
    assert default.wait_s == 0.05
    default.begin_waiting(7.0)
    assert default.left_s(7.02) == pytest.approx(0.03) and default.left_s(8.0) == 0.0
    assert [default.is_due(n, 16 - n, 7.02) for n in (1, 9, 10)] == [False, False, True]
    assert default.is_due(1, 15, 7.06)  # waited for long enough
    assert default.is_due(3, 0, 7.02)  # the others rest: nobody else will come


@pytest.mark.parametrize(("share", "least"), [(1, 1), (2, 1), (3, 2), (5.5, 3), (16, 10)])
def test_few_environments_are_served_as_they_come(share, least):
    assert Batching(0, 0, share).least == least
    assert Batching(0, 1, share).least == 1  # not more than fit into a batch


def test_a_running_mean_forgets_what_it_was_taken_for_and_old_values():
    mean = RunningMean(5.0)
    mean.add(1.0)
    assert mean.value == 1.0
    for _ in range(1000):
        mean.add(3.0)
    assert mean.value == pytest.approx(3.0, abs=1e-3)
