"""Staggered resets against the paper's timetable, written out by hand."""

import gymnasium
import numpy as np
import pytest

import rearrange  # noqa: F401  (registers the chain)
from rearrange.errors import UserError
from rearrange.ver.rollout.staggered import StaggerCfg, StaggeredResets, Timetable

H, K = 20, 5


class EpisodeFlags(gymnasium.vector.VectorWrapper):
    """Counts calls, and ends episodes early where it is told to."""

    def __init__(self, env):
        super().__init__(env)
        self.num_resets, self.num_steps, self.ends_now = 0, 0, np.zeros(env.num_envs, bool)

    def reset(self, **kwargs):
        self.num_resets += 1
        return self.env.reset(**kwargs)

    def step(self, actions):
        self.num_steps += 1
        self.env.unwrapped.elapsed[self.ends_now] = H  # its last step
        self.ends_now[:] = False
        return self.env.step(actions)


def make(num_envs=8, **more):
    chain = gymnasium.make_vec(
        "rearrange/SkillChain-v0", num_envs=num_envs, horizon=H, autoreset_mode="Disabled",
        progression=1.0, num_actions=3,
    )  # fmt: skip
    counted = EpisodeFlags(chain)
    return StaggeredResets(counted, StaggerCfg(horizon=H, rollout_steps=K, **more)), counted


def step(envs):
    return envs.step(np.zeros(envs.num_envs, np.int64))


def test_the_papers_groups_and_offsets():
    """ceil(200 / 5) = 40 groups, 5 steps apart; of 22 steps the last of 5 groups begins at 20."""
    offsets = Timetable(StaggerCfg(horizon=200, rollout_steps=5), 512).offsets
    assert np.unique(offsets).tolist() == list(range(0, 200, 5))
    assert set(np.bincount(offsets)[::5]) <= {12, 13}
    assert np.unique(Timetable(StaggerCfg(horizon=22, rollout_steps=5), 50).offsets).tolist() == [
        0, 5, 10, 15, 20,
    ]  # fmt: skip
    halves = Timetable(StaggerCfg(horizon=200, rollout_steps=5, num_groups=2), 4).offsets
    assert halves.tolist() == [0, 0, 100, 100]


@pytest.mark.parametrize("how, num_before", [("advance", 15), ("cut", 0)])
def test_each_rollout_shows_all_of_the_horizon(how, num_before):
    envs, counted = make(how=how)
    envs.reset(seed=0)
    assert counted.num_steps == num_before
    # Two environments a group; at t their episodes are t + 0, 5, 10, 15 steps old, round H.
    for t in range(60):
        ages = counted.env.unwrapped.elapsed
        if how == "advance" or t >= H:
            assert ages.tolist() == [(t + offset) % H for offset in (0, 0, 5, 5, 10, 10, 15, 15)]
        _, _, terminated, truncated, infos = step(envs)
        ended = [(t + 1 + offset) % H == 0 for offset in (0, 0, 5, 5, 10, 10, 15, 15)]
        assert (terminated | truncated).tolist() == ended
        assert not infos["is_waiting"].any()
        is_first = np.full(8, t < H)
        is_cut = np.repeat([False, True, True, True], 2) & is_first
        assert infos["is_whole"].tolist() == (np.array(ended) & ~is_cut).tolist()
        assert truncated.tolist() == (ended & is_cut & (how == "cut")).tolist()


def test_who_ends_early_waits_for_the_next_gate_of_any_group():
    envs, counted = make()
    envs.reset(seed=0)
    for _ in range(2):
        step(envs)
    counted.ends_now[[0, 3]] = True
    _, _, terminated, _, infos = step(envs)  # t = 3; the next gate is at 5
    assert terminated.tolist() == [i in (0, 3) for i in range(8)]
    assert infos["final_obs"][0] == counted.env.unwrapped.block[0]
    num_resets = counted.num_resets
    for t in (4, 5):
        _, rewards, terminated, _, infos = step(envs)
        assert np.flatnonzero(infos["is_waiting"]).tolist() == [0, 3]
        assert (rewards[[0, 3]] == 0).all() and (rewards != 0).sum() == 6
        assert not terminated[[0, 3]].any()
        assert counted.num_resets - num_resets == (t == 5)  # together with the group of the gate
    ages = [counted.env.unwrapped.elapsed[i] for i in (0, 3, 6, 7)]
    assert ages == [0, 0, 0, 0] and not envs.tracker.is_over.any()
    for _ in range(H):
        ended = step(envs)[2]
    assert ended.tolist() == [i in (0, 3, 6, 7) for i in range(8)]  # of that group from now on


def test_without_gates_nobody_waits():
    envs, counted = make(has_gates=False)
    envs.reset(seed=0)
    counted.ends_now[0] = True
    step(envs)
    assert counted.env.unwrapped.elapsed[0] == 0
    assert not step(envs)[4]["is_waiting"].any()


def test_gates_make_fewer_resets():
    """An episode ends early in each step; gates are K steps apart."""
    calls = {}
    for has_gates in (True, False):
        envs, counted = make(has_gates=has_gates)
        envs.reset(seed=0)
        counted.num_resets = 0
        for t in range(100):
            counted.ends_now[t % 8] = True
            step(envs)
        calls[has_gates] = counted.num_resets
    assert calls == {True: 100 // K, False: 100}


def test_two_trainings_of_one_seed_begin_alike():
    first, second = make()[0], make()[0]
    assert first.reset(seed=4)[0].tolist() == second.reset(seed=4)[0].tolist()


def test_an_environment_that_resets_itself_is_refused():
    chain = gymnasium.make_vec("rearrange/SkillChain-v0", num_envs=2)
    with pytest.raises(UserError, match="need autoreset_mode='Disabled', got"):
        StaggeredResets(chain, StaggerCfg(horizon=200, rollout_steps=5))
    with pytest.raises(ValueError, match="how must be one of advance, cut; got 'jump'"):
        StaggerCfg(horizon=200, rollout_steps=5, how="jump")


def test_infos_are_those_of_gymnasiums_same_step():
    """Of the chain itself, which has it: where nothing is staggered both are one."""
    settings = {"num_envs": 6, "horizon": H, "progression": 0.4, "reset_spread": 1.0}
    same = gymnasium.make_vec("rearrange/SkillChain-v0", autoreset_mode="SameStep", **settings)
    plain = gymnasium.make_vec("rearrange/SkillChain-v0", autoreset_mode="Disabled", **settings)
    cfg = StaggerCfg(horizon=H, rollout_steps=H, num_groups=1, has_gates=False)
    ours = StaggeredResets(plain, cfg)
    same.reset(seed=3), ours.reset(seed=3)
    rng, num_ends = np.random.default_rng(0), 0
    for step in range(50):
        if step == 7:  # out of step with each other
            for env in (same, plain):
                env.unwrapped.elapsed += np.arange(6)
        actions = rng.integers(20, size=6)
        theirs, mine = same.step(actions)[-1], ours.step(actions)[-1]
        finals = mine.pop("final_info", None), theirs.pop("final_info", None)
        for a, b in ((mine, theirs), finals):
            for name in b or ():
                assert np.array_equal(a[name], b[name]) or (
                    name in ("success", "accuracy", "block")  # where its mask says no
                    and np.array_equal(a[name][b[f"_{name}"]], b[name][b[f"_{name}"]])
                ), name
        num_ends += finals[1] is not None
    assert num_ends > 6


def test_seeds_may_be_one_each_and_the_timetable_alone_resets_single_ones():
    first, second = make(4)[0], make(4)[0]
    seeds = [4, 5, 6, 7]
    blocks = [envs.reset(seed=one)[0] for envs, one in ((first, seeds), (second, np.array(seeds)))]
    assert blocks[0].tolist() == blocks[1].tolist()
    with pytest.raises(UserError, match="reset_mask must be left out"):
        first.reset(options={"reset_mask": np.ones(4, bool)})
