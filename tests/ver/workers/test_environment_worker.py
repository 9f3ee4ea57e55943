"""One environment and its row of the slots; the worker process is tested with the pool."""

import gymnasium
import numpy as np
import pytest
from fake_env import (
    LENGTHS,
    SEED_RANGE,
    FakeEnv,
    MakeFake,
    make_pool,
    observation,
    reward_of,
    seed_of,
)

from rearrange.errors import UserError
from rearrange.ver.batched.start_cfg import StaggeredStartCfg, staggered_worker_cfg
from rearrange.ver.workers import shared_memory as sm
from rearrange.ver.workers.environment_worker import SlotEnvironment, WorkerCfg, episode_seed
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.spaces import action_spec, observation_spec

LONG = MakeFake(lengths=(200,))


def make(
    make_env, start_mode="off", horizon=50, index=1, number=0, is_fresh=True, keys=(), **settings
):
    env = make_env(index)
    spec = observation_spec(env.observation_space), action_spec(env.action_space)
    slots = StepSlots.allocate(SlotLayout(index + 1, *spec, len(keys)))
    cfg = WorkerCfg(7, tuple(keys), start_mode, horizon, **settings)
    environment = SlotEnvironment(make_env, index, slots, cfg, number, is_fresh)
    return environment, slots


def test_a_step_leaves_what_the_environment_gave():
    environment, slots = make(MakeFake())
    environment.start()
    number, total, count = 0, 0.0, 0
    assert slots.is_start[1] and slots.episode_number[1] == 0
    for t in range(200):
        seed = seed_of(1, number)
        slots.action[1] = choice = np.sin(t)
        sent = np.float32(2.0 * np.float32(choice))
        environment.step()
        count += 1
        total += reward_of(1, count, sent)
        assert slots.reward[1] == pytest.approx(reward_of(1, count, sent))
        is_over = count == LENGTHS[seed % 5]
        assert slots.terminated[1] == (is_over and seed % 2 == 1)
        assert slots.truncated[1] == (is_over and seed % 2 == 0)
        row = slots.observation["observation"][1]
        if is_over:
            expected = observation(1, seed, count, sent)
            np.testing.assert_allclose(slots.final["observation"][1], expected, rtol=1e-6)
            assert slots.episode_return[1] == pytest.approx(total)
            assert slots.episode_length[1] == count
            number, total, count, sent = number + 1, 0.0, 0, 0.0
        expected = observation(1, seed_of(1, number), count, sent)
        np.testing.assert_allclose(row, expected, rtol=1e-6)
        assert slots.episode_number[1] == number and not slots.is_start[1]


def test_seeds_of_episodes_differ_and_are_known():
    seeds = [episode_seed(s, e, n) for s in range(3) for e in range(20) for n in range(50)]
    assert len(set(seeds)) == len(seeds) and min(seeds) >= 0 and max(seeds) < 2**31
    assert episode_seed(3, 4, 5) == episode_seed(3, 4, 5)


def first_lengths(start_mode, indices, horizon=50, is_fresh=True):
    lengths = []
    for index in indices:
        environment, slots = make(LONG, start_mode, horizon, index, is_fresh=is_fresh)
        environment.start()
        begin = int(slots.observation["observation"][index, 2])
        steps = 0
        while not (slots.terminated[index] or slots.truncated[index]) and steps < 200:
            environment.step()
            steps += 1
        lengths.append((begin, steps, int(slots.episode_length[index])))
    return lengths


def test_off_starts_at_the_first_step_and_plays_whole_episodes():
    assert set(first_lengths("off", range(3))) == {(0, 200, 200)}
    for mode in ("clock", "advance"):  # after a restart or a resume, too
        assert set(first_lengths(mode, range(3), is_fresh=False)) == {(0, 200, 200)}


@pytest.mark.parametrize("how", ["advance", "cut"])
def test_staggered_starts_are_so_many_rollouts_apart_and_no_episode_is_longer(how):
    """H = 50 and T = 20: three groups, 0, 20 and 40 steps into their episodes."""
    stagger = StaggeredStartCfg(how=how)
    lengths, seconds = [], []
    for index in range(6):
        cfg = staggered_worker_cfg(WorkerCfg(7, (), "staggered", 50), stagger, 6, 20)
        settings = {"offsets": cfg.offsets, "is_cut": cfg.is_cut}
        environment, slots = make(LONG, "staggered", 50, index, **settings)
        environment.start()
        begin = int(slots.observation["observation"][index, 2])
        for lengths_of in (lengths, seconds):
            steps = 0
            while steps == 0 or not slots.truncated[index]:
                environment.step()
                steps += 1
            is_whole = bool(slots.is_whole[index])
            lengths_of.append((begin, steps, int(slots.episode_length[index]), is_whole))
            begin = int(slots.observation["observation"][index, 2])
    assert seconds == [(0, 50, 50, True)] * 6
    if how == "advance":
        first = [(0, 50, 50, True), (20, 30, 50, False), (40, 10, 50, False)]
    else:
        first = [(0, 50, 50, True), (0, 30, 30, False), (0, 10, 10, False)]
    assert lengths == [one for one in first for _ in range(2)]


def test_clock_truncates_only_the_first_episode_within_the_horizon():
    lengths = first_lengths("clock", range(20))
    ends = np.array([steps for _, steps, _ in lengths])
    is_cut = ends < 200
    assert {begin for begin, _, _ in lengths} == {0} and is_cut.sum() >= 18
    assert ends[is_cut].max() < 50 and ends[is_cut].min() >= 1 and len(set(ends)) > 10
    assert lengths == first_lengths("clock", range(20))
    environment, slots = make(LONG, "clock")
    environment.start()
    for _ in range(lengths[1][1]):
        environment.step()
    assert slots.truncated[1] and not slots.terminated[1]
    assert slots.final["observation"][1, 2] == lengths[1][1]
    for _ in range(199):
        environment.step()
        assert not slots.truncated[1] and not slots.terminated[1]


def test_advance_starts_inside_an_episode_that_then_goes_to_its_end():
    lengths = first_lengths("advance", range(20))
    begins = np.array([begin for begin, _, _ in lengths])
    assert begins.max() < 50 and len(set(begins)) > 10
    assert all(begin + steps == length == 200 for begin, steps, length in lengths)
    assert lengths == first_lengths("advance", range(20))


def test_advance_goes_through_the_ends_of_short_episodes():
    environment, slots = make(MakeFake(), "advance", horizon=200, index=3)
    environment.start()
    row = slots.observation["observation"][3]
    number = int(slots.episode_number[3])
    assert number > 3 and slots.is_start[3]
    assert row[1] == seed_of(3, number) % (1 << 20)
    lengths = [LENGTHS[seed_of(3, n) % 5] for n in range(number)]
    rng = np.random.default_rng([7, 3, 1])
    assert sum(lengths) + row[2] == rng.integers(200)  # the offset, all of it taken


@pytest.mark.parametrize("start_mode", ["off", "clock", "advance"])
def test_replaying_the_actions_gives_the_same_state(start_mode):
    environment, slots = make(MakeFake(), start_mode, horizon=9, index=2)
    environment.start()
    for t in range(37):
        slots.action[2] = np.cos(t)
        environment.step()
    number, actions = environment.number, [action.copy() for action in environment.actions]
    again, other = make(MakeFake(), "off", index=2, number=number, is_fresh=False)
    again.replay(actions)
    for t in range(60):
        assert (slots.observation["observation"][2] == other.observation["observation"][2]).all()
        assert again.total_return == environment.total_return
        for one in (slots, other):
            one.action[2] = np.sin(t)
        environment.step()
        again.step()
        assert slots.episode_return[2] == other.episode_return[2] or t < 30


def test_a_reward_that_is_not_finite_begins_the_next_episode():
    environment, slots = make(MakeFake(lengths=(9,), poison=((1, seed_of(1, 0), 3),)))
    environment.start()
    for _ in range(3):
        assert slots.fault[1] == sm.FAULT_NONE
        environment.step()
    assert slots.fault[1] == sm.FAULT_NONFINITE and slots.is_start[1]
    assert slots.get_message(1) == "environment 1, episode 0, step 3: reward nan"
    assert slots.episode_number[1] == 1 and slots.observation["observation"][1, 2] == 0
    environment.step()
    assert slots.fault[1] == sm.FAULT_NONE and not slots.is_start[1]


class BadNumbers(FakeEnv):
    """One number of the observation is wrong, in steps and, if wanted, at the start."""

    def __init__(self, index, bad, at_start):
        super().__init__(index, lengths=(9,))
        self.bad, self.at_start = bad, at_start

    def reset(self, **kwargs):
        given, info = super().reset(**kwargs)
        return (self.spoil(given) if self.at_start else given), info

    def step(self, action):
        given, *rest = super().step(action)
        return self.spoil(given), *rest

    def spoil(self, given):
        given[2:] = self.bad
        return given


@pytest.mark.parametrize("bad", [np.nan, np.inf, (np.inf, -np.inf)])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_observations_that_are_not_finite_are_found(bad):
    environment, slots = make(lambda index: BadNumbers(index, bad, False))
    environment.start()
    environment.step()
    assert slots.fault[1] == sm.FAULT_NONFINITE
    assert "step 1: observation 'observation'" in slots.get_message(1)
    with pytest.raises(RuntimeError, match="environment 1, episode 0, step 0: observation"):
        make(lambda index: BadNumbers(index, bad, True))[0].start()


def test_large_finite_numbers_are_no_fault():
    environment, slots = make(lambda index: BadNumbers(index, 3e38, True))
    environment.start()
    environment.step()
    assert slots.fault[1] == sm.FAULT_NONE


class Infos(FakeEnv):
    def step(self, action):
        *given, _ = super().step(action)
        return *given, {"is_success": np.bool_(True), "stages": {"picked": 0.5, "how": "well"}}


def test_numbers_of_the_last_info_are_looked_up_by_path():
    keys = ("success", "stages/picked", "stages/how", "stages/picked/deep", "nothing")
    environment, slots = make(lambda index: Infos(index, lengths=(1,)), keys=keys)
    environment.start()
    environment.step()
    np.testing.assert_array_equal(slots.infos[1], [1.0, 0.5, np.nan, np.nan, np.nan])


class BothEnds(FakeEnv):
    def step(self, action):
        given, reward, *_ = super().step(action)
        return given, reward, True, True, {}


def test_an_end_that_is_both_is_a_termination():
    environment, slots = make(BothEnds)
    environment.start()
    environment.step()
    assert slots.terminated[1] and not slots.truncated[1]


def episodes_of(kind, start_mode="off", num_steps=1200, **options):
    """Per environment its episodes: number, seed, length, whether counted as a whole one."""
    pool = make_pool(kind, 2, MakeFake(lengths=(1, 2, 3)), start_mode, **options)
    try:
        slots, found = pool.slots, [[], []]
        begun = [
            (int(slots.episode_number[e]), slots.observation["observation"][e, 1]) for e in (0, 1)
        ]
        left = [num_steps, num_steps]  # of each as many, however busy the machine is
        while any(left):
            for e in pool.receive(1.0):
                now = int(slots.episode_number[e]), int(slots.observation["observation"][e, 1])
                if slots.is_start[e]:
                    begun[e] = now
                elif slots.terminated[e] or slots.truncated[e]:
                    found[e].append(
                        (*begun[e], int(slots.episode_length[e]), bool(slots.is_whole[e]))
                    )
                    begun[e] = now
                left[e] -= 1
                if left[e]:
                    pool.send([e])
        return found
    finally:
        pool.close()


@pytest.mark.parametrize("kind", ["serial", "workers"])
def test_failed_episodes_are_given_again_as_often_as_asked(kind):
    """With probability p an episode without success is given 1 / (1 - p) times on the mean."""
    for e, episodes in enumerate(episodes_of(kind, repeat_failed=0.6, num_steps=900)):
        numbers = [number for number, *_ in episodes]
        assert numbers == list(range(len(numbers)))  # sequences are told apart by them
        times = {True: [], False: []}
        own = None
        for number, seed, *_ in episodes:
            if own is not None and seed == own:
                times[seed % 2 == 1][-1] += 1
            else:
                own = seed
                assert seed == seed_of(e, number) % SEED_RANGE  # the seed otherwise decides
                times[seed % 2 == 1].append(1)
        assert set(times[True]) == {1}  # successes are not repeated
        assert np.mean(times[False]) == pytest.approx(2.5, abs=0.5) and max(times[False]) > 4


def test_repeats_are_the_same_in_every_run_and_none_where_none_are_asked_for():
    assert episodes_of("serial", repeat_failed=0.6) == episodes_of("serial", repeat_failed=0.6)
    for episodes in episodes_of("serial"):
        assert len({seed for _, seed, *_ in episodes}) == len(episodes)


@pytest.mark.parametrize("start_mode", ["off", "clock", "advance"])
def test_only_first_episodes_that_were_cut_short_are_not_whole(start_mode):
    for episodes in episodes_of("serial", start_mode, num_steps=60, horizon=200):
        assert [is_whole for *_, is_whole in episodes[1:]] == [True] * (len(episodes) - 1)
    firsts = [
        episodes_of("serial", start_mode, 60, horizon=h)[e][0] for h in (3, 50) for e in (0, 1)
    ]
    if start_mode == "off":
        assert all(is_whole for *_, is_whole in firsts)
    else:
        assert not all(is_whole for *_, is_whole in firsts)


def test_a_repeated_episode_replays_with_the_seed_it_had():
    settings = {"repeat_failed": 1.0}
    environment, slots = make(MakeFake(lengths=(3,)), index=2, **settings)
    environment.start()
    for _ in range(100):
        environment.step()
    assert environment.number == 33 > environment.seed_number  # the first that fails, for ever
    again, other = make(MakeFake(lengths=(3,)), index=2, number=33, is_fresh=False, **settings)
    again.replay(environment.actions, environment.seed_number)
    assert (slots.observation["observation"][2] == other.observation["observation"][2]).all()
    assert again.seed_number == environment.seed_number


def test_a_real_environment_replays_too():
    def make_env(index):
        return gymnasium.make("Acrobot-v1", disable_env_checker=True)

    environment, slots = make(make_env, index=0)
    environment.start()
    rng = np.random.default_rng(0)
    for _ in range(130):
        slots.action[0] = rng.integers(3)
        environment.step()
    again, other = make(make_env, index=0, number=environment.number, is_fresh=False)
    again.replay(environment.actions)
    assert (other.observation["observation"] == slots.observation["observation"]).all()


class Stretched(FakeEnv):
    """From its second step on one number stands for all four."""

    def step(self, action):
        observation, *others = super().step(action)
        return (observation if self.count < 2 else observation[:1], *others)


def test_an_observation_of_another_shape_names_environment_and_step():
    one, _ = make(lambda index: Stretched(index, lengths=(9,)))
    one.start()
    one.step()
    with pytest.raises(UserError) as caught:
        one.step()
    assert str(caught.value) == (
        "env Stretched: observation 'observation' must have the shape (4,), got (1,) "
        "(environment 1, episode 0, step 2)"
    )
