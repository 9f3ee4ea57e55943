"""Observations and actions through arrays and back, for every kind of space."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from rearrange.errors import UserError
from rearrange.ver.workers.spaces import (
    action_spec,
    observation_spec,
    write_observation,
    write_observations,
)

NESTED = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (5, 6, 3), np.uint8),
        "arm": spaces.Dict(
            {"joints": spaces.Box(-3.0, 3.0, (7,)), "is_closed": spaces.Discrete(2)}
        ),
        "flags": spaces.MultiBinary(3),
    }
)
OBSERVATIONS = [
    spaces.Box(-1.0, 1.0, (3,), np.float64),
    spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
    spaces.Box(0.0, 1.0, (), np.float32),
    spaces.Box(0, 255, (4, 4, 1), np.uint8),
    spaces.Box(0, 255, (128,), np.uint8),
    spaces.Box(-5, 5, (2,), np.int64),
    spaces.Discrete(5),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([2, 5, 3]),
    spaces.MultiDiscrete([[2, 5], [3, 4]], start=[[1, -1], [0, 7]]),
    spaces.MultiBinary((2, 3)),
    NESTED,
]


def read_back(space, arrays, row, prefix=""):
    """The observation that stands in a row; written without the module under test."""
    if isinstance(space, spaces.Dict):
        return {
            name: read_back(
                part, arrays, row, prefix + name + ("/" if isinstance(part, spaces.Dict) else "")
            )
            for name, part in space.spaces.items()
        }
    flat = arrays[prefix or "observation"][row]
    if isinstance(space, spaces.Discrete):
        return int(flat.argmax()) + space.start
    if isinstance(space, spaces.MultiDiscrete):
        parts = np.split(flat, np.cumsum(space.nvec.ravel())[:-1])
        assert [part.sum() for part in parts] == [1.0] * len(parts)
        return np.array([part.argmax() for part in parts]).reshape(space.shape) + space.start
    return flat.reshape(space.shape).astype(space.dtype)


def assert_same(space, one, other):
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            assert_same(part, one[name], other[name])
    else:
        np.testing.assert_allclose(one, other, rtol=1e-6)  # float64 becomes float32


@pytest.mark.parametrize("space", OBSERVATIONS, ids=str)
def test_an_observation_can_be_read_back_from_its_arrays(space):
    space.seed(0)
    spec = observation_spec(space)
    arrays = {name: np.full((3, *one.shape), 77, one.dtype) for name, one in spec.items()}
    for _ in range(10):
        observation = space.sample()
        write_observation(space, observation, arrays, 1)
        assert_same(space, observation, read_back(space, arrays, 1))
    for array in arrays.values():
        assert (array[[0, 2]] == 77).all()


@pytest.mark.parametrize("space", OBSERVATIONS, ids=str)
def test_a_batch_of_observations_is_written_as_one_by_one(space):
    """Gymnasium makes the batch; rows that are not asked for stay."""
    space.seed(0)
    observations = [space.sample() for _ in range(4)]
    batch = concatenate(space, observations, create_empty_array(space, 4))
    spec, rows = observation_spec(space), np.array([True, False, True, True])
    ours, expected = (
        {name: np.full((4, *one.shape), 77, one.dtype) for name, one in spec.items()}
        for _ in range(2)
    )
    write_observations(space, batch, ours, rows)
    for row in np.flatnonzero(rows):
        write_observation(space, observations[row], expected, row)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, expected[name])


def test_pictures_stay_bytes_and_all_else_is_float32():
    spec = observation_spec(NESTED)
    assert set(spec) == {"camera", "arm/joints", "arm/is_closed", "flags"}
    assert spec["camera"].dtype == np.uint8 and spec["camera"].shape == (5, 6, 3)
    assert all(s.dtype == np.float32 for name, s in spec.items() if name != "camera")


def half_bounded(dtype, low, high):
    low, high = np.array([low, -np.inf], dtype), np.array([np.inf, high], dtype)
    return spaces.Box(low, high, dtype=dtype)


ACTIONS = [
    spaces.Box(-2.0, 2.0, (1,), np.float32),
    spaces.Box(np.array([-0.1, 0.0, 3.0]), np.array([0.7, 0.1, 3.3]), dtype=np.float64),
    spaces.Box(-0.1, 0.1, (3,), np.float16),
    spaces.Box(-np.inf, np.inf, (2,), np.float32),
    half_bounded(np.float32, 0.5, 0.25),
    half_bounded(np.float64, 0.1, 0.1),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.Box(np.array([-3, 2]), np.array([1, 9]), dtype=np.int64),
    spaces.Box(-1.0, 1.0, (), np.float32),
    spaces.Box(-3e38, 3e38, (2,), np.float32),
]


@pytest.mark.parametrize(
    "space",
    [*ACTIONS, spaces.Discrete(4, start=-2), spaces.MultiDiscrete([[2, 5], [3, 4]])],
    ids=str,
)
def test_actions_of_many_are_a_batch_that_gymnasium_takes_apart(space):
    spec, rng = action_spec(space), np.random.default_rng(0)
    actions = rng.normal(0.0, 1.0, (5, spec.size)).astype(spec.dtype)
    if spec.kind == "discrete":
        actions = rng.integers(spec.num_choices, size=(5, spec.size))
    batch = spec.to_envs(actions)
    assert batch_space(space, 5).contains(batch.astype(batch_space(space, 5).dtype))
    for one, action in zip(iterate(batch_space(space, 5), batch), actions, strict=True):
        np.testing.assert_array_equal(one, spec.to_env(action))


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_every_action_of_a_box_lies_in_it(space):
    spec = action_spec(space)
    assert spec.kind == "box" and spec.size == int(np.prod(space.shape))
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 100.0):
        for _ in range(100):
            action = spec.to_env(rng.normal(0.0, scale, spec.size).astype(spec.dtype))
            assert space.contains(action)


def test_minus_one_and_one_are_the_ends_of_a_bounded_range():
    low, high = np.array([-3.0, 0.0, 2.0]), np.array([-1.0, 4.0, 2.5])
    spec = action_spec(spaces.Box(low, high, dtype=np.float64))
    for at in (-5.0, -1.0, -0.5, 0.0, 0.5, 1.0, 5.0):
        expected = np.interp(at, [-1.0, 1.0], [0.0, 1.0]) * (high - low) + low
        np.testing.assert_allclose(spec.to_env(np.full(3, at, np.float32)), expected, rtol=1e-6)


def test_an_unbounded_side_takes_the_action_as_it_is():
    space = half_bounded(np.float32, 0.5, np.inf)
    spec = action_spec(space)
    assert spec.to_env(np.array([7.0, -9.0], np.float32)).tolist() == [7.0, -9.0]
    assert spec.to_env(np.array([-7.0, 9.0], np.float32)).tolist() == [0.5, 9.0]


def test_all_whole_numbers_of_a_box_are_reached():
    spec = action_spec(spaces.Box(-3, 4, (1,), np.int32))
    reached = {int(spec.to_env(np.array([x], np.float32))[0]) for x in np.linspace(-1.0, 1.0, 101)}
    assert reached == set(range(-3, 5))


@pytest.mark.parametrize("start", [0, -2, 10])
def test_every_choice_of_a_discrete_space_is_reached_once(start):
    space = spaces.Discrete(4, start=start)
    spec = action_spec(space)
    assert (spec.size, spec.num_choices, spec.dtype) == (1, (4,), np.int64)
    reached = [spec.to_env(np.array([choice])) for choice in range(4)]
    assert reached == list(range(start, start + 4)) and all(map(space.contains, reached))


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [-1, 5]]),
        spaces.MultiDiscrete([3, 2], dtype=np.int32),
    ],
    ids=str,
)
def test_every_combination_of_choices_is_reached_once(space):
    spec = action_spec(space)
    assert spec.kind == "discrete" and spec.num_choices == tuple(space.nvec.ravel())
    reached = set()
    for choices in np.ndindex(*spec.num_choices):
        action = spec.to_env(np.array(choices))
        assert space.contains(action) and action.dtype == space.dtype
        reached.add(action.tobytes())
    assert len(reached) == np.prod(spec.num_choices)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Dict({"a": spaces.Dict({"b": spaces.Text(3)})}),
        spaces.Dict({}),
    ],
    ids=str,
)
def test_other_observations_are_refused_in_one_line(space):
    with pytest.raises(UserError) as caught:
        observation_spec(space)
    assert str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "space",
    [spaces.Dict({"a": spaces.Discrete(2)}), spaces.Tuple([]), spaces.MultiBinary(3)],
    ids=str,
)
def test_other_actions_are_refused_in_one_line(space):
    with pytest.raises(UserError) as caught:
        action_spec(space)
    assert type(space).__name__ in str(caught.value) and "\n" not in str(caught.value)


WRONG_VALUES = {
    "a scalar": (spaces.Box(-1, 1, (4,)), 0.5, "must have the shape (4,), got ()"),
    "one of four": (spaces.Box(-1, 1, (4,)), np.ones(1), "must have the shape (4,), got (1,)"),
    "a row of four": (spaces.Box(-1, 1, (4,)), np.ones((1, 4)), "got (1, 4)"),
    "imaginary parts": (spaces.Box(-1, 1, (4,)), np.ones(4) * 1j, "real numbers, got type complex"),
    "text": (spaces.Box(-1, 1, (2,)), ["1", "2"], "real numbers, got type <U1"),
    "nothing": (spaces.Box(-1, 1, (2,)), None, "real numbers, got type object"),
    "ragged": (spaces.Box(-1, 1, (2,)), [[1], [2, 3]], "must be an array"),
    "below the choices": (spaces.Discrete(4), -1, "one of the space's choices, got -1"),
    "above the choices": (spaces.Discrete(4, start=2), 6, "one of the space's choices, got 6"),
    "half a choice": (spaces.Discrete(4), 2.5, "whole numbers, got type float64"),
    "its neighbour's": (spaces.MultiDiscrete([2, 3]), np.array([2, 0]), "one of the space's"),
    "two of two": (spaces.MultiBinary(2), np.array([0, 2]), "one of the space's choices"),
    "no byte": (spaces.Box(0, 255, (1, 1, 3), np.uint8), np.full((1, 1, 3), 300), "must be bytes"),
    "fractions": (spaces.Box(0, 255, (1, 1, 3), np.uint8), np.ones((1, 1, 3)), "must be bytes"),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_what_is_no_observation_of_its_space_is_refused(case):
    space, value, word = WRONG_VALUES[case]
    for whole, observation, key in (
        (space, value, "observation"),
        (spaces.Dict({"a": spaces.Dict({"b": space})}), {"a": {"b": value}}, "a/b"),
    ):
        spec = observation_spec(whole)
        arrays = {name: np.zeros((2, *part.shape), part.dtype) for name, part in spec.items()}
        with pytest.raises(UserError) as caught:
            write_observation(whole, observation, arrays, 1)
        assert word in str(caught.value) and f"'{key}'" in str(caught.value)


def test_a_missing_key_and_what_is_no_dict_are_named():
    space = spaces.Dict({"a": spaces.Box(-1, 1, (1,)), "b": spaces.Discrete(2)})
    arrays = {"a": np.zeros((1, 1)), "b": np.zeros((1, 2))}
    with pytest.raises(UserError, match="observation 'b' is missing"):
        write_observation(space, {"a": [0.5]}, arrays, 0)
    with pytest.raises(UserError, match="must be a dict"):
        write_observation(space, np.zeros(3), arrays, 0)
    write_observation(space, {"a": 0.5, "b": np.array([1])}, arrays, 0)  # one number is one number
    assert arrays["a"][0, 0] == 0.5 and arrays["b"].tolist() == [[0, 1]]
