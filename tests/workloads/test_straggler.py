"""The reference workload R1 and what can be reached on it, against numbers found otherwise."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.eval.benchmarks.trainers.bench_ideal import MODES, Workload, calculate, ideal_rate
from rearrange.workloads.straggler import Sleeper, StepTimes, StragglerCfg, StragglerEnv

ALIKE = {"spread": 0.0, "slow_share": 0.0, "reset_low_s": 0.0, "reset_high_s": 0.0}


def test_times_have_the_distribution_of_r1():
    times = [StepTimes(StragglerCfg(), index) for index in range(200)]
    factors = np.log([t.factor for t in times])
    assert abs(factors.mean()) < 0.05 and abs(factors.std() - 0.2) < 0.03  # 3 standard errors
    one = times[3]
    steps = np.array([one.next_step_s() for _ in range(5000)])
    base = 0.020 * one.factor
    assert set(np.round(steps / base, 9)) == {1.0, 4.0}
    assert abs((steps > 2 * base).mean() - 0.1) < 0.015
    assert one.mean_step_s == pytest.approx(steps.mean(), rel=0.03)
    resets = np.array([one.next_reset_s() for _ in range(2000)])
    assert 0.15 <= resets.min() < 0.16 and 0.59 < resets.max() <= 0.6


def test_an_environment_is_as_fast_in_every_process():
    first, again = (StepTimes(StragglerCfg(seed=5), 7) for _ in range(2))
    other = StepTimes(StragglerCfg(seed=5), 8)
    assert [first.next_step_s() for _ in range(50)] == [again.next_step_s() for _ in range(50)]
    assert first.factor == again.factor != other.factor


def test_groups_and_episodes_have_factors_of_their_own():
    settings = {"slow_share": 0.0, "spread": 0.0}
    cfg = StragglerCfg(**settings, group_size=4, group_spread=0.3)
    factors = [StepTimes(cfg, index).factor for index in range(800)]
    assert len(set(factors)) == 200 and all(
        factors[index] == factors[index - index % 4] for index in range(800)
    )
    assert np.log(factors).std() == pytest.approx(0.3, rel=0.15)
    times = StepTimes(StragglerCfg(**settings, episode_spread=0.3), 5)
    steps = []
    for _ in range(2000):
        steps += [times.next_step_s(), times.next_step_s()]
        assert steps[-2] == steps[-1]
        times.next_reset_s()
    assert len(set(steps)) == 2000 and np.log(steps).std() == pytest.approx(0.3, rel=0.06)
    assert np.mean(steps) == pytest.approx(times.mean_step_s, rel=0.03)


def test_sleeps_add_up_to_the_times_asked_for():
    times = []
    for _ in range(5):
        sleeper, start = Sleeper(), time.perf_counter()
        for _ in range(50):
            sleeper.sleep(0.002)
        times.append(time.perf_counter() - start)
    # 50 uncorrected sleeps would be 3 to 8 ms late; the best of five, as the machine may be busy
    assert 0.099 < min(times) < 0.125


def test_episodes_last_200_steps_and_only_the_first_reset_is_free():
    env = StragglerEnv(2, base_step_s=0.0, reset_low_s=0.02, reset_high_s=0.02)
    lengths, waits = [], []
    for _ in range(3):
        start = time.perf_counter()
        observation, _ = env.reset()
        waits.append(time.perf_counter() - start)
        assert env.observation_space.contains(observation)
        length, is_over = 0, False
        while not is_over:
            _, _, terminated, is_over, _ = env.step(env.action_space.sample())
            length += 1
            assert not terminated
        lengths.append(length)
    assert 1 <= lengths[0] <= 200 and lengths[1:] == [200, 200]
    assert waits[0] < 0.01 < 0.019 < min(waits[1:])


def test_resets_of_different_environments_are_spread_over_the_episode():
    phases = [StepTimes(StragglerCfg(), index).first_episode_steps for index in range(16)]
    assert len(set(phases)) > 12 and max(phases) - min(phases) > 100
    together = StepTimes(StragglerCfg(is_staggered=False), 3)
    assert together.first_episode_steps == 200


def test_a_recording_is_replayed_from_another_place_by_each_environment(tmp_path):
    path = tmp_path / "times.json"
    path.write_text(json.dumps({"step_s": [0.1, 0.2, 0.3], "reset_s": [1.0]}))
    cfg = StragglerCfg(recording=str(path))
    heard = {tuple(StepTimes(cfg, i).next_step_s() for _ in range(1)) for i in range(20)}
    assert heard == {(0.1,), (0.2,), (0.3,)}
    times = StepTimes(cfg, 0)
    assert sorted(times.next_step_s() for _ in range(3)) == [0.1, 0.2, 0.3]
    assert times.mean_step_s == pytest.approx(0.2) and times.next_reset_s() == 1.0


@pytest.mark.parametrize("content", ["", "[]", '{"step_s": [0.1]}', '{"step_s":[],"reset_s":[1]}'])
def test_a_bad_recording_is_one_clear_line(tmp_path, content):
    path = tmp_path / "times.json"
    path.write_text(content)
    with pytest.raises(UserError, match="recording"):
        StragglerEnv(0, recording=str(path))


@pytest.mark.parametrize("setting", [{"speed": 1}, {"slow_share": 1.5}, {"base_step_s": -1.0}])
def test_a_bad_setting_is_one_clear_line(setting):
    with pytest.raises(UserError, match=next(iter(setting))):
        StragglerEnv(0, **setting)


def test_a_worker_with_the_straggler_does_not_load_torch():
    code = "import sys, rearrange.workloads.straggler; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_without_stragglers_the_calculation_is_arithmetic():
    # 10 ms a step and 2 ms for the one batch of all: 4 environments give 4 steps every 12 ms
    cfg = StragglerCfg(base_step_s=0.010, **ALIKE)
    work = Workload(straggler=cfg, num_envs=4, num_steps=50)
    collecting = 50 * 0.012
    for mode in ("ddppo", "nover", "ver"):
        assert calculate(mode, work, 5) == pytest.approx(200 / (collecting + 0.5), rel=0.02)
    for mode in ("htsrl", "async"):  # learning is hidden behind collecting
        assert calculate(mode, work, 5) == pytest.approx(200 / collecting, rel=0.02)
    assert ideal_rate(work) == pytest.approx(200 / (collecting + 0.5))


def test_only_ddppo_waits_for_the_slower_of_two_steps(tmp_path):
    # Two environments replay 10 and 30 ms in turn. In step with each other, DD-PPO waits for 20 ms
    # on the mean; out of step always for the slower one. The others take 20 ms on the mean.
    path = tmp_path / "times.json"
    path.write_text(json.dumps({"step_s": [0.010, 0.030], "reset_s": [0.0]}))
    cfg = StragglerCfg(recording=str(path))
    in_step = StepTimes(cfg, 0).next_step_s() == StepTimes(cfg, 1).next_step_s()
    work = Workload(straggler=cfg, num_envs=2, num_steps=100, inference_s=0.0, learning_s=0.0)
    assert calculate("ddppo", work, 3) == pytest.approx(2 / (0.020 if in_step else 0.030), rel=0.01)
    assert calculate("nover", work, 3) == pytest.approx(2 / 0.020, rel=0.01)
    assert calculate("ver", work, 3) == pytest.approx(2 / 0.020, rel=0.01)


def test_on_r1_the_modes_stand_as_expected():
    # The requirement expects VER at about 3.3 times DD-PPO and 1.32 times NoVER on R1. It depends
    # on the draw of the 16 factors: the mean over draws has to be near, each draw above the bars.
    over_ddppo, over_nover = [], []
    for seed in range(6):
        work = Workload(straggler=StragglerCfg(seed=seed))
        rates = {mode: calculate(mode, work, 6) for mode in MODES}
        over_ddppo.append(rates["ver"] / rates["ddppo"])
        over_nover.append(rates["ver"] / rates["nover"])
        assert 0.97 < rates["ver"] / ideal_rate(work) < 1.01
        assert rates["ddppo"] < rates["nover"] < rates["htsrl"] < rates["ver"] < rates["async"]
    assert np.mean(over_ddppo) == pytest.approx(3.3, rel=0.06) and min(over_ddppo) > 3.0
    assert np.mean(over_nover) == pytest.approx(1.32, rel=0.08)


def test_with_an_inference_worker_for_each_environment_ver_reaches_its_ideal():
    # What is left of waiting is the first step after learning, which all ask for at once.
    work = Workload()
    rates = [calculate("ver", work, 6, num_inference_workers=n) for n in (1, 2, work.num_envs)]
    assert rates[0] < rates[1] <= rates[2]
    assert rates[2] == pytest.approx(ideal_rate(work), rel=0.01)


def test_waiting_for_large_batches_costs_ver_its_lead():
    work = Workload()
    assert calculate("ver", work, 4, min_batch=10) < 0.9 * calculate("ver", work, 4)
