"""Vector environments of torch tensors in mode batched, beside the same ones of numpy arrays."""

import gymnasium
import numpy as np
import pytest
import torch
from batched_pools import Choosing, batched_pool
from fake_run import E, Run, same
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from test_trainer import assert_same_state, metrics, trainer

from rearrange.errors import UserError
from rearrange.ver.batched.tensors import to_arrays

LENGTHS = (3, 5, 8)


class Counting(VectorEnv):
    """Counts steps since the reset, times its seed; `xp` is numpy or torch. All it is given has to
    be its own kind of array."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    single_observation_space = gymnasium.spaces.Dict(
        observation=gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    )
    single_action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, num_envs, xp=np):
        self.num_envs, self.xp, self.masks = num_envs, xp, 0
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.array = np.ndarray if xp is np else torch.Tensor
        self.seeds, self.count = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self.total = np.zeros(num_envs, np.int64)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask")
        self.masks += mask is not None
        assert mask is None or isinstance(mask, self.array)
        mask = np.ones(self.num_envs, bool) if mask is None else np.asarray(mask)
        self.seeds[mask] = np.array(seed, object)[mask].astype(np.int64) % 1000
        self.count[mask] = self.total[mask] = 0
        return self.look(), {}

    def step(self, actions):
        assert isinstance(actions, self.array) and actions.shape == (self.num_envs,)
        is_over = self.count >= self.limit
        self.count += ~is_over
        self.total += np.where(is_over, 0, np.asarray(actions))
        reward = np.where(is_over, 0.0, np.asarray(actions) + 0.5)
        ended = self.count >= self.limit
        given = self.own(reward), self.own(ended), self.own(np.zeros(self.num_envs, bool))
        return self.look(), *given, {"success": self.own(self.total % 2 == 0)}

    @property
    def limit(self):
        return np.array(LENGTHS)[self.seeds % 3]

    def look(self):
        seen = np.stack([self.seeds, self.count, self.total], axis=1).astype(np.float32)
        return {"observation": self.own(seen)}

    def own(self, array):
        return array if self.xp is np else torch.tensor(array)


class One(gymnasium.Env):
    """What the spaces are read from."""

    observation_space = Counting.single_observation_space
    action_space = Counting.single_action_space

    def __init__(self, index=0):
        pass

    def reset(self, *, seed=None, options=None):
        return {"observation": np.zeros(3, np.float32)}, {}

    def step(self, action):
        return {"observation": np.zeros(3, np.float32)}, 0.0, False, False, {}


@pytest.mark.parametrize("groups", [1, 2])
def test_rollouts_of_tensors_equal_those_of_arrays(groups):
    runs = []
    for xp in (np, torch):
        pool = batched_pool(One, make_envs=lambda n, xp=xp: Counting(n, xp), groups=groups)
        runs.append(Run(pool, "batched", Choosing()).collect(5))
    assert same(*(run.rollouts for run in runs))
    ends = [
        [(e.env, e.total_return, e.length) for r in run.reports for e in r.episodes] for run in runs
    ]
    infos = [[e.infos for r in run.reports for e in r.episodes] for run in runs]
    assert ends[0] == ends[1] and len(ends[0]) > 5 * E
    np.testing.assert_array_equal(*infos)
    assert {float(info[0]) for info in infos[1]} == {0.0, 1.0}
    for run in runs:
        run.close()


def test_a_training_with_tensors_resumes_to_the_last_bit(tmp_path):
    settings = {"mode": "batched", "make_env": One, "updates": 6}
    for name, xp in (("arrays", np), ("tensors", torch)):
        trainer(tmp_path / name, make_envs=lambda n, xp=xp: Counting(n, xp), **settings).run()
    settings["make_envs"] = lambda n: Counting(n, torch)
    assert trainer(tmp_path / "parts", after=3, **settings).run()["stopped_by"] == "SIGINT"
    trainer(tmp_path / "parts", resume="auto", **settings).run()
    for name in ("arrays", "parts"):
        assert metrics(tmp_path / name) == metrics(tmp_path / "tensors")
        assert_same_state(tmp_path / name, tmp_path / "tensors")


class Asking(Counting):
    """Notes in what modes of torch it is called, and answers as it is told."""

    def __init__(self, num_envs, **answers):
        super().__init__(num_envs, torch)
        self.modes, self.answers = set(), answers

    def reset(self, **kwargs):
        self.modes.add((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        return super().reset(**kwargs)

    def step(self, actions):
        self.modes.add((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        names = ("observations", "rewards", "terminated", "truncated", "infos")
        answer = dict(zip(names, super().step(actions), strict=True))
        return list((answer | self.answers).values())


@pytest.mark.parametrize("groups", [1, 2])
def test_environments_are_called_in_one_mode_of_torch_and_may_say_less(groups):
    infos = {"success": torch.tensor(0.5), "loss": np.float32(2.0)}
    pool = batched_pool(One, make_envs=lambda n: Asking(n, infos=infos), groups=groups)
    run = Run(pool, "batched", Choosing()).collect(2)
    for one in [pool] if groups == 1 else pool.pools:
        assert one.envs.modes == {(False, False)}
    assert all(np.isnan(end.infos).all() for report in run.reports for end in report.episodes)
    run.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            {"rewards": torch.zeros(E, 1)},
            r"rewards of .* must be \[4\] .*, got \[4, 1\]",
        ),
        ({"terminated": torch.zeros(E, 1, dtype=torch.bool)}, r"terminated of .*, got \[4, 1\] of"),
        ({"truncated": np.full(E, "no")}, r"truncated of .* of type <U2"),
    ],
    ids=["rewards", "terminated", "truncated"],
)
def test_answers_that_are_none_are_named(answer, message):
    pool = batched_pool(One, make_envs=lambda n: Asking(n, **answer))
    with pytest.raises(UserError, match=message):
        Run(pool, "batched", Choosing()).collect(1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_flags_may_be_numbers(dtype):
    flags = {"truncated": torch.ones(E, dtype=dtype)}
    pool = batched_pool(One, make_envs=lambda n: Asking(n, **flags))
    run = Run(pool, "batched", Choosing()).collect(1)
    assert all(end.length == 1 for end in run.reports[0].episodes)


def test_tensors_become_arrays_wherever_they_are():
    batch = {"a": (torch.ones(2, dtype=torch.bfloat16), 3), "b": {"c": torch.tensor([True])}}
    arrays = to_arrays(batch)
    assert arrays["a"][0].dtype == np.float32 and arrays["a"][1] == 3
    assert arrays["b"]["c"].dtype == bool
    learned = torch.ones(1, requires_grad=True) * 2.0
    assert to_arrays(learned).tolist() == [2.0]
