"""What is fitted to measurements: known costs are found again, and the simulation then agrees."""

from dataclasses import replace

import pytest

from rearrange.eval.benchmarks.scaling.calibration import (
    assumptions,
    calibrate,
    errors,
    fit_all_reduce,
    fit_line,
    rates_alone,
)
from rearrange.eval.benchmarks.scaling.measure import Measured
from rearrange.eval.benchmarks.scaling.simulation import Costs, StepTable, simulate, simulate_alone
from rearrange.eval.benchmarks.trainers.bench_ideal import Workload
from rearrange.workloads.straggler import StragglerCfg

TRUE = Costs(batch_s=0.004, rollout_s=(0.05, 0.006), hop_s=0.0007, bytes_s=0.01)
ROLLOUTS, WARMUP = 7, 2


@pytest.fixture(scope="module")
def table():
    cfg = StragglerCfg(group_size=4, group_spread=0.2, episode_spread=0.2, episode_steps=20)
    work = Workload(
        straggler=cfg, num_envs=4, num_steps=16, inference_s=0.002, learning_s=0.1
    )  # fmt: skip
    return StepTable(work, 8)


def figure(runs, rates, costs, ranks, table):
    """What the bench would have measured of simulated trainings."""
    run = runs[0]
    spans = [(r.ends_s[-1] - r.ends_s[WARMUP - 1]) / (len(r.ends_s) - WARMUP) for r in runs]
    collect = [sum(r.collect_s[WARMUP:]) / len(r.collect_s[WARMUP:]) for r in runs]
    rate = sum(rates) / len(rates)
    return Measured(
        rate=rate, rates_alone=rates if ranks == 1 else [], rollout_s=sum(spans) / len(spans),
        collect_s=sum(collect) / len(collect), stopped=run.stopped[-1], stale=0.0, error_s=None,
        all_reduce_s=costs.all_reduce_s(ranks), own_cores=0.1, all_cores=0.1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def measurements(table):
    costs, found = TRUE, {}
    for ranks in (1, 2, 4, 8):
        found[ranks] = {}
        for way in ("ver", "nover", "ddppo"):
            if ranks == 1:
                runs = simulate_alone(way, table, 8, costs, ROLLOUTS)
                rates = rates_alone(way, table, costs, ROLLOUTS, WARMUP)
            else:
                min_steps = ROLLOUTS * table.work.rollout_steps * ranks
                runs = [simulate(way, table, ranks, costs, 0, min_steps)]
                rates = [runs[0].rate(WARMUP)]
            found[ranks][way] = figure(runs, rates, costs, ranks, table)
    return found


def test_costs_that_made_the_figures_are_found_again_and_explain_them(table, measurements):
    costs = calibrate(measurements, table, ROLLOUTS, WARMUP)
    assert costs.hop_s == pytest.approx(TRUE.hop_s) and costs.bytes_s == pytest.approx(TRUE.bytes_s)
    assert costs.rollout_s == pytest.approx(TRUE.rollout_s, rel=1e-6)
    assert costs.batch_s == pytest.approx(TRUE.batch_s, abs=2e-4)
    apart = errors(measurements, table, costs, ROLLOUTS, WARMUP)
    # steps are whole: where one rollout ends a little otherwise, the next ones do too
    assert max(abs(error) for ways in apart.values() for error in ways.values()) < 0.03


def test_a_machine_that_is_slower_with_many_ranks_shows_as_an_error(table, measurements):
    slower = {8: {"ver": replace(measurements[8]["ver"], rate=0.8 * measurements[8]["ver"].rate)}}
    apart = errors(slower, table, TRUE, ROLLOUTS, WARMUP)
    assert apart[8]["ver"] == pytest.approx(0.25)


def test_fits_never_give_negative_costs():
    assert fit_line((1, 2, 4), (0.3, 0.2, 0.1)) == (pytest.approx(0.2), 0.0)
    assert fit_line((2, 4), (0.02, 0.08))[0] == 0.0
    assert fit_line((2, 2), (0.1, 0.3)) == (pytest.approx(0.2), 0.0)
    # quicker the more ranks there are: no ring explains that
    costs = fit_all_reduce({2: 0.4, 4: 0.2, 8: 0.1})
    assert costs.hop_s >= 0.0 and costs.bytes_s >= 0.0
    assert fit_all_reduce({}) == Costs()
    assert fit_all_reduce({2: 0.4}).all_reduce_s(2) == pytest.approx(0.4)


def test_the_assumptions_name_the_costs(table):
    text = "\n".join(assumptions(TRUE, table, 1024))
    assert "4.00 ms of the collector" in text and f"{TRUE.all_reduce_s(1024) * 1e3:.1f} ms" in text
