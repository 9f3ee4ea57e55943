"""The simulation of many ranks, against closed forms and loops written out by hand."""

import math

import numpy as np
import pytest

from rearrange.eval.benchmarks.scaling.simulation import (
    NOTICE_S,
    WAYS,
    Costs,
    StepTable,
    simulate,
    simulate_alone,
)
from rearrange.eval.benchmarks.trainers.bench_ideal import Workload, calculate
from rearrange.workloads.straggler import StragglerCfg

ALIKE = {"spread": 0.0, "slow_share": 0.0, "reset_low_s": 0.0, "reset_high_s": 0.0}
T, E = 10, 4


def workload(base_step_s=0.01, inference_s=0.002, learning_s=0.05, **settings):
    cfg = StragglerCfg(base_step_s=base_step_s, **settings)
    return Workload(
        straggler=cfg, num_envs=E, num_steps=T, inference_s=inference_s, learning_s=learning_s
    )


class GivenTable:
    """Step times from an array [R, E, n], the last ones again and again."""

    def __init__(self, work, times):
        self.work, self.times, self.num_ranks = work, np.array(times), len(times)

    def get(self, ranks, envs, number):
        return self.times[ranks, envs, np.minimum(number, self.times.shape[2] - 1)]


@pytest.mark.parametrize("way", WAYS)
def test_one_rank_whose_steps_all_take_the_same_time_is_arithmetic(way):
    table = StepTable(workload(**ALIKE), 1)
    costs = Costs(batch_s=0.001, rollout_s=(0.02, 0.01), hop_s=5.0, bytes_s=5.0)
    # T rounds of a batch (2 + 1 ms) and a step; nobody to talk to; learning; a + b
    rollout_s = T * 0.013 + 0.05 + 0.03
    for run in (simulate(way, table, 1, costs, 4), simulate_alone(way, table, 1, costs, 4)[0]):
        assert run.rate(2) == pytest.approx(T * E / rollout_s)
        assert run.steps == [T * E * k for k in (1, 2, 3, 4)] and run.stopped == [0.0] * 4


@pytest.mark.parametrize("way", ["ver_waits", "nover", "ddppo"])
def test_ranks_that_are_all_alike_and_talk_for_nothing_scale_perfectly(way):
    table = StepTable(workload(**ALIKE), 64)
    one = simulate(way, table, 1, Costs(), 4).rate(2)
    assert simulate(way, table, 64, Costs(), 4).rate(2) == pytest.approx(64 * one)


@pytest.mark.parametrize("way", ["ver", "nover_stops"])
def test_optimal_preemption_of_equal_ranks_costs_no_more_than_the_last_steps(way):
    table = StepTable(workload(**ALIKE), 16)
    one = simulate(way, table, 1, Costs(), 6).rate(2)
    # rounding alone decides whether the last step of each environment is still in time
    assert simulate(way, table, 16, Costs(), 6).rate(2) >= 16 * one * (1.0 - 1.0 / T)


def test_all_reduces_follow_the_ring():
    costs = Costs(hop_s=0.001, bytes_s=0.1)
    assert costs.all_reduce_s(1) == 0.0
    assert costs.all_reduce_s(2) == pytest.approx(2 * 0.001 + 0.1)  # half of it there and back
    assert costs.all_reduce_s(1001) == pytest.approx(2.0 + 0.2, rel=1e-3)
    table = StepTable(workload(**ALIKE), 2)
    spans = np.diff(simulate("nover", table, 2, costs, 3).ends_s)
    assert spans == pytest.approx([T * 0.012 + 0.05 + 6 * 0.102] * 2)


def test_ddppo_is_what_a_loop_by_hand_gives():
    rng = np.random.default_rng(0)
    num_ranks = 5  # three have to finish
    # the last rank is much slower: a few of its rounds are over when the others have finished
    times = rng.uniform(0.01, 0.05, (num_ranks, E, 3 * T))
    times[4] *= 2.5
    work = workload(inference_s=0.002, learning_s=0.05)
    run = simulate("ddppo", GivenTable(work, times), num_ranks, Costs(), 2)

    def rounds(rank, begin, first):
        """When each step of a rollout is over, [T, E], all in step."""
        now, ends = begin, []
        for t in range(first, first + T):
            now += 0.002
            ends.append(now + times[rank, :, t])
            now = ends[-1].max()
        return np.array(ends)

    # the first rollout: nobody is stopped
    ends = [rounds(rank, 0.0, 0).max() for rank in range(num_ranks)]
    begin = max(ends) + 0.05
    assert run.collect_s[0] == pytest.approx(max(ends)) and run.stopped[0] == 0.0
    assert run.ends_s[0] == pytest.approx(begin)
    # the second: once three have finished and the others have seen it
    steps = [rounds(rank, begin, T) for rank in range(num_ranks)]
    stop = sorted(ends.max() for ends in steps)[2] + NOTICE_S
    done = [int((ends <= stop).sum()) for ends in steps]
    last = max(min(stop, ends.max()) for ends in steps)
    assert T * E / 4 <= done[4] < T * E
    assert run.steps[1] - run.steps[0] == sum(done)
    assert run.stopped[1] == sum(count < T * E for count in done) / num_ranks
    assert run.ends_s[1] == pytest.approx(last + 0.05)


def test_rollouts_of_nover_and_ver_are_what_sums_of_the_given_times_say():
    rng = np.random.default_rng(1)
    times = rng.uniform(0.01, 0.09, (3, E, 4 * T))
    work = workload(inference_s=0.0, learning_s=0.0)
    table = GivenTable(work, times)
    slowest = times[:, :, :T].sum(axis=2).max()
    assert simulate("nover", table, 3, Costs(), 1).ends_s == pytest.approx([slowest])
    # of one rank: nobody is waited for, and steps under way go on in the next rollout
    ends = np.sort(times[0].cumsum(axis=1).ravel())
    run = simulate("ver_waits", table, 1, Costs(), 2)
    assert run.ends_s == pytest.approx([ends[T * E - 1], ends[2 * T * E - 1]])


@pytest.mark.parametrize(
    "way, mode", [("ver_waits", "ver"), ("nover", "nover"), ("ddppo", "ddppo")]
)
def test_one_rank_on_r1_is_what_another_calculation_gives(way, mode):
    work = Workload(num_steps=32, learning_s=0.2)
    run = simulate(way, StepTable(work, 1), 1, Costs(), 6)
    assert run.rate(1) == pytest.approx(calculate(mode, work, 5), rel=1e-3)


def test_a_rank_that_becomes_slow_is_stopped_by_ver_and_waited_for_without_preemption():
    times = np.full((4, E, 100), 0.02)
    times[3, :, T:] = 0.1  # from its second rollout on
    table = GivenTable(workload(inference_s=0.0), times)
    waits = simulate("ver_waits", table, 4, Costs(), 6)
    stops = simulate("ver", table, 4, Costs(), 6)
    assert waits.collect_s[5] == pytest.approx(T * 0.1, abs=0.06)
    # chosen from the rollouts before, in which three ranks were done after 0.2 s
    assert stops.stopped[5] == 0.25 and stops.collect_s[5] == pytest.approx(0.2, abs=0.03)
    assert math.isclose(stops.ends_s[4], waits.ends_s[4])  # the first choice is for the sixth


def test_ranks_by_themselves_have_their_own_environments_and_do_not_wait():
    table = StepTable(workload(group_size=E, group_spread=0.5), 3)
    runs = simulate_alone("nover", table, 3, Costs(), 3)
    ends = [run.ends_s[-1] for run in runs]
    assert len(set(ends)) == 3
    together = simulate("nover", table, 3, Costs(), 3)
    assert together.ends_s[-1] >= max(ends)
