"""What a rollout holds, from environments and a policy whose numbers can be worked out again."""

import fake_env
import numpy as np
import pytest
from fake_env import LENGTHS, SEED_RANGE, MakeFake, make_pool, observation, reward_of, seed_of
from fake_policy import FakePolicy
from fake_run import MODES, E, Run, S, T, collect

from rearrange.ver.rollout.batching import Batching
from rearrange.ver.rollout.collector import CollectorCfg
from rearrange.ver.rollout.report import NonFinite, Stopped


def episodes_of(rollouts):
    """{(env, episode): its steps, oldest first, as (rollout, {name: value})}."""
    found = {}
    for number, rows in enumerate(rollouts):
        for i in range(len(rows["env_id"])):
            step = {name: values[i] for name, values in rows.items()}
            key = int(step["env_id"]), int(step["episode_id"])
            found.setdefault(key, []).append((number, step))
    return {key: sorted(steps, key=lambda s: s[1]["step_id"]) for key, steps in found.items()}


def known_value(step, memory):
    return memory + 0.01 * step


def check_episode(env, steps, seed, is_recurrent):
    """Every number of an episode's stored steps, counted again from the actions alone."""
    length = LENGTHS[seed % len(LENGTHS)]
    previous, memory = 0.0, 0.0
    for t, (_, row) in enumerate(steps):
        action = float(row["action"][0])
        assert row["step_id"] == t and row["is_first"] == (t == 0)
        sent = float(np.float32(2.0 * np.clip(previous, -1.0, 1.0)))  # the range is -2 to 2
        np.testing.assert_allclose(row["observation"], observation(env, seed, t, sent), rtol=1e-6)
        assert row["prev_action"][0] == previous
        if is_recurrent:
            assert row["state"][0] == pytest.approx(memory, abs=1e-6)
            memory = 0.5 * memory + 0.001 * t + 0.1 * previous
        assert row["value"] == pytest.approx(known_value(t, memory), abs=1e-5)
        assert row["log_prob"] == pytest.approx(1.0 - action**2, abs=1e-5)
        sent = 2.0 * np.clip(action, -1.0, 1.0)
        assert row["reward"] == pytest.approx(reward_of(env, t + 1, sent), abs=1e-4)
        is_over = t + 1 == length
        assert row["terminated"] == (is_over and seed % 2 == 1)
        assert row["truncated"] == (is_over and seed % 2 == 0)
        after = 0.5 * memory + 0.001 * (t + 1) + 0.1 * action if is_recurrent else 0.0
        expected = 0.0 if row["terminated"] else known_value(t + 1, after)
        assert row["next_value"] == pytest.approx(expected, abs=1e-5)
        previous = action
    return len(steps) == length


def check(run, is_gapless=True, is_recurrent=True):
    """All steps of a run; without faults no episode may be missing a step."""
    seeds = {(e, seed_of(e, n) % SEED_RANGE): n for e in range(E) for n in range(400)}
    episodes = episodes_of(run.rollouts)
    newest = {env: max((ep for e, ep in episodes if e == env), default=0) for env in range(E)}
    before = {}
    for (env, episode), steps in sorted(episodes.items()):
        number = seeds[env, int(steps[0][1]["observation"][1])]
        is_complete = check_episode(env, steps, seed_of(env, number), is_recurrent)
        if is_gapless:
            assert number == before.get(env, -1) + 1
            assert is_complete or episode == newest[env]
        assert number > before.get(env, -1)
        before[env] = number
    keys = [(env, ep, s["step_id"]) for (env, ep), steps in episodes.items() for _, s in steps]
    assert len(set(keys)) == len(keys) == S * len(run.rollouts)
    assert all(len(rows["env_id"]) == S for rows in run.rollouts)
    for rows, report in zip(run.rollouts, run.reports, strict=True):
        assert np.bincount(rows["env_id"], minlength=E).tolist() == report.steps_per_env.tolist()


CASES = [(kind, mode) for kind in ("serial", "uneven", "workers") for mode in MODES]


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_every_stored_number_belongs_to_its_step(kind, mode):
    run = collect(kind, mode)
    check(run)
    shares = np.array([report.steps_per_env for report in run.reports])
    if mode != "ver":
        assert (shares == T).all()
    elif kind == "uneven":
        assert (shares[:, 0] > shares[:, 3]).all()  # environment 0 is announced at once


def test_a_policy_without_memory_is_collected_alike():
    check(collect("uneven", policy=FakePolicy(is_recurrent=False)), is_recurrent=False)


@pytest.mark.parametrize("mode", ["ver", "nover"])
def test_two_inference_threads_and_slow_environments_keep_all_numbers_together(mode):
    cfg = CollectorCfg(num_inference_workers=2, max_batch=2)
    check(collect("workers", mode, count=10, make_env=MakeFake(step_s=0.001), cfg=cfg))


def test_steps_under_way_go_to_the_next_rollout_as_they_were():
    run = collect("uneven", count=12)
    episodes = episodes_of(run.rollouts)
    num_carried = 0
    for number, left in enumerate(run.open_rows[:-1]):
        for i, key in enumerate(zip(left["env_id"], left["episode_id"], strict=True)):
            is_newest = left["step_id"][i] >= len(episodes.get(key, ()))
            if is_newest:
                continue  # still under way when the last rollout ended
            rollout, step = episodes[key][left["step_id"][i]]
            assert rollout > number
            names = ("action", "log_prob", "value", "state", "observation", "policy_version")
            for name in names:
                assert (step[name] == left[name][i]).all()
            num_carried += rollout == number + 1
    assert num_carried > 10
    versions = np.stack([rows["policy_version"] for rows in run.rollouts])
    lag = np.arange(12)[:, None] - versions
    assert 0.0 < lag.mean() < 0.2 and lag.min() == 0


@pytest.mark.parametrize("mode", MODES)
def test_replaced_environments_leave_whole_episodes_or_none_of_a_rollouts_part(mode):
    run = collect("faulty", mode, count=12)
    check_whole_parts(run)
    assert sum(report.num_dropped_steps for report in run.reports) > 10


@pytest.mark.parametrize("mode", MODES)
def test_a_number_that_is_not_finite_takes_its_sequence_with_it(mode):
    # environment 1, an episode of 30 steps: the 20th gives a reward that is NaN
    number = next(n for n in range(200) if LENGTHS[seed_of(1, n) % 5] == 30)
    poison = (1, seed_of(1, number), 20)
    make_env = MakeFake(poison=(poison,))
    run = collect("uneven", mode, count=24, make_env=make_env, on_nonfinite="drop")
    check_whole_parts(run)
    (number,) = [n for n, report in enumerate(run.reports) if report.num_nonfinite]
    rows = run.rollouts[number]
    seed = poison[1] % SEED_RANGE
    is_its = (rows["env_id"] == 1) & (rows["observation"][:, 1] == seed)
    assert not is_its.any()
    earlier = [r["observation"][r["env_id"] == 1][:, 1:3] for r in run.rollouts[:number]]
    kept = [int(step) for part in earlier for s, step in part if s == seed]
    assert kept == list(range(len(kept)))
    assert run.reports[number].num_dropped_steps + len(kept) == 19


def check_whole_parts(run):
    """As `check`, but an episode may stop anywhere: its last part was dropped."""
    check(run, is_gapless=False)


def test_a_number_that_is_not_finite_stops_with_its_place_unless_told_otherwise():
    make_env = MakeFake(lengths=(30,), poison=((1, seed_of(1, 0), 3),))
    with pytest.raises(NonFinite, match="environment 1, episode 0, step 3: reward nan"):
        collect("serial", make_env=make_env)


def test_collecting_stops_when_asked():
    looks = []

    def should_stop():
        looks.append(None)
        return len(looks) > 5

    with pytest.raises(Stopped):
        collect("serial", should_stop=should_stop)


class ScriptedPool(fake_env.SerialPool):
    """Announces one environment at a time."""

    def receive(self, timeout_s):
        return [self._ready.pop(0)] if self._ready else []


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 3), (2, 3), (2, 2), (4, 4)])
def test_batches_keep_their_limits(low, high, monkeypatch):
    monkeypatch.setitem(fake_env.POOLS, "scripted", ScriptedPool)
    monkeypatch.setattr(Batching, "wait_s", 1e9)  # however long it takes
    for kind in ("scripted", "serial"):
        run = Run(make_pool(kind, E), cfg=CollectorCfg(min_batch=low, max_batch=high))
        run.collect(3)
        assert max(run.policy.batches) <= high and min(run.policy.batches) >= low


def test_an_incomplete_batch_is_served_after_half_a_step(monkeypatch):
    monkeypatch.setitem(fake_env.POOLS, "scripted", ScriptedPool)
    monkeypatch.setattr(Batching, "wait_s", -1e9)  # long over
    run = Run(make_pool("scripted", E), cfg=CollectorCfg(min_batch=4))
    run.collect(2)
    assert run.policy.batches.count(1) > 0.9 * len(run.policy.batches)


def test_nobody_waits_for_environments_that_rest(monkeypatch):
    """Those of nover that have given their share; the pool announces one at a time."""
    monkeypatch.setitem(fake_env.POOLS, "scripted", ScriptedPool)
    monkeypatch.setattr(Batching, "wait_s", 1e9)
    run = Run(make_pool("scripted", E), "nover", cfg=CollectorCfg(min_batch=3))
    for _ in range(3):
        run.collect(1)
        assert run.reports[-1].wall_s < 60.0 and run.reports[-1].steps_per_env.tolist() == [T] * E


def test_ddppo_serves_all_environments_at_once():
    run = collect("uneven", "ddppo", cfg=CollectorCfg(max_batch=2, num_inference_workers=2))
    assert set(run.policy.batches) == {E}
