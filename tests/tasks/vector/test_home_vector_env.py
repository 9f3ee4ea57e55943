"""Homes on threads against as many single ones, by Gymnasium's own serial vector environment."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import rearrange  # noqa: F401  (registers the ids)
from rearrange.errors import UserError
from rearrange.tasks import env as env_module
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.names import TASKS
from rearrange.ver.rollout.staggered import StaggerCfg, StaggeredResets

SMALL = {"camera_size": 16, "max_episode_steps": 12}


def make(num_envs, task="pick", **more):
    options = SMALL | {"threads": 2} | more
    return gymnasium.make_vec(
        TASKS[task], num_envs=num_envs, vectorization_mode="vector_entry_point", **options
    )


def make_singles(num_envs, task="pick", autoreset_mode="NextStep", **more):
    options = SMALL | more
    makers = [lambda: make_env(task, **options)] * num_envs
    return SyncVectorEnv(makers, autoreset_mode=autoreset_mode)


def equal(ours, theirs):
    """The same numbers in the same types, whatever they are wrapped in."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for name in ours:
            equal(ours[name], theirs[name])
    elif isinstance(ours, tuple):
        for a, b in zip(ours, theirs, strict=True):
            equal(a, b)
    elif isinstance(ours, np.ndarray) and ours.dtype == object:
        assert theirs.dtype == object
        for a, b in zip(ours, theirs, strict=True):
            equal(a, b)
    elif isinstance(ours, np.ndarray):
        assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes())
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    "task, mode, more",
    [
        ("pick", "NextStep", {}),
        ("pick", "SameStep", {"split": "val"}),
        ("place", "SameStep", {"observation_delay": 0}),
        ("navigate", "NextStep", {"depth": False, "ranges": True, "homes": "procedural"}),
        ("open_fridge", "NextStep", {"handle_sensors": True, "observation_delay": 0}),
        ("set_table", "SameStep", {"split": "val"}),
        ("pick", "NextStep", {"rgb": "plain", "panoptic": True}),
        ("pick", "SameStep", {"rgb": "plain", "depth": False, "observation_delay": 0}),
    ],
)
def test_homes_are_single_ones_bit_for_bit(task, mode, more):
    homes, singles = (f(4, task, autoreset_mode=mode, **more) for f in (make, make_singles))
    assert homes.observation_space == singles.observation_space
    equal(homes.reset(seed=3), singles.reset(seed=3))
    rng, num_ended = np.random.default_rng(0), 0
    for _ in range(30):
        actions = rng.uniform(-1.0, 1.0, homes.action_space.shape).astype(np.float32)
        actions[:, -1] -= 0.9  # calls a stop now and then, so that homes do not end together
        result = homes.step(actions)
        equal(result, singles.step(actions))
        num_ended += (result[2] | result[3]).sum()
    assert num_ended >= 8
    homes.close()


@pytest.mark.parametrize("task", TASKS)
def test_every_task_comes_as_a_vector(task):
    homes = make(2, task, seed=8)
    observations, infos = homes.reset()
    alone = make_env(task, seed=9, **SMALL)  # home 1 of seed 8
    equal({name: array[1] for name, array in observations.items()}, alone.reset()[0])
    assert homes.single_action_space == alone.action_space
    assert infos["episode_index"].tolist() == [0, 0]
    homes.close()


def test_observations_are_the_callers_unless_told_otherwise():
    for copies in (True, False):
        homes = make(2, copy=copies)
        homes.reset(seed=0)
        kept = homes.step(np.zeros((2, 11)))[0]
        assert kept["head_depth"].flags.c_contiguous and kept["joint"].flags.c_contiguous
        before = kept["joint"].copy()
        for _ in range(2):
            later = homes.step(np.full((2, 11), 0.9) * np.append(np.ones(10), -1.0))[0]
        assert np.array_equal(kept["joint"], before) == copies
        assert np.shares_memory(later["joint"], kept["joint"]) != copies
        homes.close()


def test_who_has_ended_stands_still_until_it_is_reset():
    homes = make(3, autoreset_mode="Disabled", max_episode_steps=4)
    homes.reset(seed=0)
    mask = np.array([False, True, False])
    for _ in range(2):
        homes.step(np.zeros((3, 11)))
    homes.reset(options={"reset_mask": mask})
    for _ in range(2):
        last, _, _, truncated, _ = homes.step(np.zeros((3, 11)))
    assert truncated.tolist() == [True, False, True]
    for _ in range(2):
        later, rewards, _, truncated, infos = homes.step(np.full((3, 11), -0.5))
        assert all(np.array_equal(later[name][~mask], last[name][~mask]) for name in last)
        assert truncated.all() == (infos["num_steps"][1] == 4) and (rewards[~mask] == 0.0).all()
    assert infos["num_steps"].tolist() == [4, 4, 4]
    homes.close()


def test_staggered_resets_take_homes():
    homes = make(4, autoreset_mode="Disabled", depth=False)
    envs = StaggeredResets(homes, StaggerCfg(horizon=12, rollout_steps=3))
    envs.reset(seed=0)
    assert [home.episode.index for home in homes.homes] == [
        1,
        1,
        1,
        0,
    ]  # the last group began first
    for t in range(12):
        lives = [home._num_steps for home in homes.homes]
        assert lives == [(t + offset) % 12 for offset in (0, 3, 6, 9)]
        still = np.append(np.zeros(10), -1.0)  # the arm holds still: nothing ends an episode early
        envs.step(np.tile(still, (4, 1)))
    homes.close()


def test_next_episodes_are_drawn_before_they_are_needed(monkeypatch):
    drawn = []

    def load(*arguments):
        drawn.append(arguments)
        return load_episode(*arguments)

    load_episode = env_module.load_episode
    monkeypatch.setattr(env_module, "load_episode", load)
    homes = make(3, depth=False, max_episode_steps=6)
    homes.reset(seed=0)
    counts = []
    for _ in range(8):
        homes.step(np.zeros((3, 11)))
        counts.append(len(drawn))
    assert counts == [4, 5, 6, 6, 6, 6, 6, 7]  # one a step, from the one on after all three begin
    homes.close()


def test_a_home_that_breaks_says_where_and_the_others_have_done_their_step():
    homes = make(3, depth=False)
    homes.reset(seed=4)
    homes.homes[1].sim.data.qpos[0] = np.nan
    with pytest.raises(RuntimeError, match="task pick, split train, seed 5, episode 0, step 1"):
        homes.step(np.zeros((3, 11)))
    assert [home._num_steps for home in homes.homes] == [1, 1, 1]
    homes.close()


def test_what_was_returned_is_the_callers_whatever_comes_after():
    homes, same = (make(3, max_episode_steps=5, autoreset_mode=m) for m in ("SameStep", "SameStep"))
    given = [homes.reset(seed=0)[0]]
    same.reset(seed=0)
    rng, kept = np.random.default_rng(0), [copy.deepcopy(given[0])]
    for number in range(12):
        actions = rng.uniform(-1.0, 1.0, (3, 11))
        if number == 7:
            options = {"reset_mask": np.array([True, False, False])}
            given.append(homes.reset(seed=9, options=dict(options))[0])
            equal(given[-1], same.reset(seed=9, options=dict(options))[0])
        else:
            given.append(homes.step(actions)[0])
            equal(given[-1], same.step(actions)[0])
        kept.append(copy.deepcopy(given[-1]))
        for values in given[-1].values():  # the caller may do with them what it likes
            values[...] = -7.0
        kept[-1] = copy.deepcopy(given[-1])
    equal(tuple(given), tuple(kept))
    homes.close()
    same.close()


def test_a_next_episode_that_cannot_be_drawn_keeps_no_home_from_its_step(monkeypatch):
    homes = make(2, depth=False, max_episode_steps=4)
    homes.reset(seed=0)
    for home in homes.homes:
        monkeypatch.setattr(home, "prepare", lambda seed: 1 / 0)
    for _ in range(2):  # one home a step
        with pytest.raises(ZeroDivisionError):
            homes.step(np.zeros((2, 11)))
    monkeypatch.undo()
    for step in range(3, 7):
        _, _, _, truncated, infos = homes.step(np.zeros((2, 11)))
        assert infos["num_steps"].tolist() == [[3, 3], [4, 4], [0, 0], [1, 1]][step - 3]
        assert truncated.all() == (step == 4)
    homes.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_a_wrong_action_of_one_home_changes_nothing_in_any(mode):
    options = {"depth": False, "autoreset_mode": mode, "max_episode_steps": 9}
    homes, same = (make(3, "navigate", **options) for _ in "ab")
    equal(homes.reset(seed=4), same.reset(seed=4))
    rng = np.random.default_rng(0)
    for number in range(14):
        actions = rng.uniform(-1.0, 1.0, (3, 11))
        actions[:, -1] = [-1.0, 1.0 if number == 5 else -1.0, -1.0]  # home 1 ends in the sixth
        for slot, wrong in ((0, np.nan), (9, np.inf), (10, -np.inf)):
            spoilt = actions.copy()
            spoilt[0, slot] = wrong
            if mode == "SameStep" or not homes._autoreset_envs[0]:
                with pytest.raises(
                    UserError, match=f"got {wrong} in row 0, column {slot}: no home"
                ):
                    homes.step(spoilt)
        equal(homes.step(actions), same.step(actions))
    for one in (homes, same):
        one.close()


def test_a_home_that_is_over_may_be_given_any_numbers():
    for mode in ("NextStep", "Disabled"):
        homes = make(2, "navigate", depth=False, autoreset_mode=mode)
        homes.reset(seed=4)
        stop = np.zeros((2, 11))
        stop[1, -1] = 1.0
        assert homes.step(stop)[2].tolist() == [False, True]
        stop[1] = np.nan
        assert homes.step(stop)[1][1] == 0.0
        homes.close()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([["a"] * 11] * 2, "must be finite numbers, got <U1"),
        ([[None] * 10 + ["x"]] * 2, "must be finite numbers: "),
        (np.full((2, 11), 1j), "must be finite numbers, got complex128"),
        ({"a": 1}, r"must have shape \(2, 11\), got \(\)"),
        (np.zeros((3, 11)), r"must have shape \(2, 11\), got \(3, 11\)"),
    ],
)
def test_actions_that_are_none_are_named_before_a_home_moves(actions, message):
    homes = make(2, depth=False)
    with pytest.raises(RuntimeError, match="reset must be called before step"):
        homes.step(np.zeros((2, 11)))
    homes.reset(options={"reset_mask": np.array([True, False])}, seed=0)
    with pytest.raises(RuntimeError, match="reset must be called before step"):
        homes.step(np.zeros((2, 11)))
    homes.reset(seed=0)
    with pytest.raises(UserError, match=message):
        homes.step(actions)
    assert [home._num_steps for home in homes.homes] == [0, 0]
    homes.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": [5, 6, -1]}, "seed must be a whole number of 0 or more, got -1"),
        ({"seed": "abc"}, "seed must be a whole number or a list of them, got 'abc'"),
        ({"seed": 2**53}, f"seed must be a whole number from 0 to {2**53}, got {2**53 + 1}"),
        ({"options": {"index": -1}}, "index must be a whole number"),
        ({"options": 5}, "reset options must be a dict with index or episode or reset_mask, got 5"),
        ({"options": {1: 2, "a": 3}}, r"reset_mask, got \['1', 'a'\]"),
    ],
)
def test_a_reset_that_cannot_be_changes_nothing_in_any_home(given, message):
    homes, same = (make(3, depth=False) for _ in "ab")
    equal(homes.reset(seed=4), same.reset(seed=4))
    with pytest.raises(UserError, match=message):
        homes.reset(**given)
    for _ in range(2):
        equal(homes.step(np.zeros((3, 11))), same.step(np.zeros((3, 11))))
    equal(homes.reset(), same.reset())
    equal(homes.reset(seed=np.array([7, 8, 9])), same.reset(seed=[7, 8, 9]))


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda homes: pickle.loads(pickle.dumps(homes))]
)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_a_copied_and_a_pickled_vector_go_on_bit_for_bit(mode, twin):
    homes = make(3, autoreset_mode=mode, max_episode_steps=7, threads=2)
    unborn = twin(homes)
    equal(homes.reset(seed=4), unborn.reset(seed=4))
    rng = np.random.default_rng(0)
    draws = [rng.uniform(-1.0, 0.9, homes.action_space.shape) for _ in range(20)]
    for actions in draws[:8]:
        homes.step(actions)
    other = twin(homes)
    expected = [homes.step(actions) for actions in draws[8:]]
    for actions, result in zip(draws[8:], expected, strict=True):
        equal(other.step(actions), result)
    equal(homes.reset(), other.reset())
    for one in (homes, other, unborn):
        one.close()


def test_mistakes_are_named():
    for settings, message in (
        ({"num_envs": 0}, "num_envs must be a whole number of 1 or more, got 0"),
        ({"num_envs": 2, "threads": -1}, "threads must be a whole number of 0 or more, got -1"),
        ({"num_envs": 2, "autoreset_mode": "x"}, "autoreset_mode must be one of NextStep, Same"),
        ({"num_envs": 2, "copy": "no"}, "copy must be true or false, got 'no'"),
        ({"num_envs": 2, "split": "holiday"}, "split must be one of train, val, test"),
    ):
        with pytest.raises(UserError, match=message):
            make(**settings)
    homes = make(2, depth=False)
    with pytest.raises(UserError, match="reset_mask must be a bool array of shape"):
        homes.reset(options={"reset_mask": [True, False]})
    homes.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions must have shape \(2, 11\), got \(11,\)"):
        homes.step(np.zeros(11))
    homes.close()


def test_an_interrupted_step_leaves_no_job_and_the_next_episodes_are_right(monkeypatch):
    def end(self, command):
        raise KeyboardInterrupt

    homes, others = (make(6, threads=2) for _ in range(2))
    homes.reset(seed=0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(env_module.RearrangeEnv, "end_advance", end)
        homes.step(homes.action_space.sample())
    for vector in (homes, others):
        vector.action_space.seed(1)
        vector.reset(seed=5)
    for _ in range(3):
        actions = others.action_space.sample()
        equal(homes.step(actions), others.step(actions))
    homes.close()
    others.close()


def test_the_episode_of_a_seed_that_is_expected_is_drawn_ahead(monkeypatch):
    homes = make(2, depth=False, autoreset_mode="Disabled")
    homes.reset(seed=0)
    homes.expect({0: 77})
    for _ in range(2):  # one home draws ahead after each
        homes.step(homes.action_space.sample())
    monkeypatch.setattr(env_module, "load_episode", None)
    mask = np.array([True, False])
    homes.reset(seed=[77, None], options={"reset_mask": mask})
    monkeypatch.undo()
    assert homes.homes[0].episode.seed == 77
    single = make_env("pick", depth=False, **SMALL)
    single.reset(seed=77)
    assert homes.homes[0].episode == single.episode
