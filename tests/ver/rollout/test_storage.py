"""Rows of a rollout: given out once, moved whole, and read in the order that is asked for."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rearrange.ver.rollout.rows import RolloutRows
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.workers.spaces import action_spec, observation_spec

S, E = 10, 3
SPACE = spaces.Dict(
    {"image": spaces.Box(0, 255, (2, 2, 1), np.uint8), "arm": spaces.Box(-1.0, 1.0, (2,))}
)


def make():
    action = action_spec(spaces.MultiDiscrete([3, 4]))
    cpu = torch.device("cpu")
    return RolloutStorage(S, E, observation_spec(SPACE), action, 4, cpu)


def fill(storage, rows, seed=0):
    """Random numbers everywhere; what `read` must give."""
    generator = torch.Generator().manual_seed(seed)
    values = {
        name: torch.randint(0, 2, value.shape, generator=generator).to(value.dtype)
        if value.dtype == torch.bool
        else torch.randint(0, 200, value.shape, generator=generator).to(value.dtype)
        for name, value in storage.read(rows).items()
    }
    storage.write(rows, values)
    return values


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_each_row_is_given_out_once_until_it_is_dropped():
    storage = make()
    rows = np.concatenate([storage.allocate(n) for n in (4, 1, 8)])
    assert sorted(rows) == list(range(S + E))
    with pytest.raises(IndexError):
        storage.allocate(1)
    for row in rows[:6]:
        storage.complete(row, 1.0, False, False)
    storage.drop(rows[4:8])
    assert storage.num_complete == 4 and sorted(storage.complete_rows()) == sorted(rows[:4])
    assert sorted(storage.allocate(4)) == sorted(rows[4:8])


def test_what_is_written_can_be_read():
    storage = make()
    storage.observation["image"].fill_(9)
    rows = storage.allocate(7)[::2]
    values = fill(storage, rows)
    assert_same(storage.read(rows), values)
    others = np.setdiff1d(np.arange(S + E), rows)
    assert (storage.observation["image"][others] == 9).all() and not storage.reward[others].any()


@pytest.mark.parametrize("is_same", [True, False])
def test_carried_rows_keep_everything_and_the_others_are_free(is_same):
    source = make()
    target = source if is_same else make()
    if not is_same:
        target.allocate(S)  # what an earlier rollout left there
        target.complete(2, 5.0, True, False)
    rows = source.allocate(S + 2)
    for row in rows[:S]:
        source.complete(row, 1.0, False, False)
    values = fill(source, rows[S:]) | {"is_complete": torch.zeros(2, dtype=torch.bool)}
    source.write(rows[S:], values)
    new = source.carry(rows[S:], target)
    assert_same(target.read(new), values)
    assert target.num_complete == 0 and len(target.complete_rows()) == 0
    rest = target.allocate(S + 1)
    assert not set(rest) & set(new) and len(set(rest)) == S + 1


def test_a_minibatch_holds_its_rows_in_order():
    storage = make()
    rows = storage.allocate(8)
    fill(storage, rows, seed=4)
    wanted, first = np.array([5, 1, 7, 2, 0]), np.array([5, 1])
    batch = storage.minibatch(wanted, np.array([2, 2, 1]), first)
    for name in ("prev_action", "is_first", "action", "log_prob", "value"):
        assert torch.equal(getattr(batch, name), getattr(storage, name)[[5, 1, 7, 2, 0]])
    for name in ("advantage", "returns", "is_weight", "is_stale"):
        assert getattr(batch, name).tolist() == getattr(storage, name)[wanted].tolist()
    for name, array in storage.observation.items():
        assert torch.equal(batch.observation[name], array[[5, 1, 7, 2, 0]])
    assert torch.equal(batch.start_state, storage.state[[5, 1]])
    assert batch.batch_sizes.tolist() == [2, 2, 1] and batch.batch_sizes.dtype == torch.int64
    assert batch.observation["image"].dtype == torch.uint8


def test_complete_forgets_the_value_that_stood_in_the_row():
    storage = make()
    storage.next_value[:] = np.nan
    (row,) = storage.allocate(1)
    storage.complete(row, 2.5, True, False)
    assert storage.next_value[row] == 0.0 and storage.reward[row] == 2.5
    assert storage.terminated[row] and not storage.truncated[row]


def test_rows_move_to_where_they_are_learned_from_whole():
    storage = make()
    fill(storage, np.arange(S + E))
    rows = RolloutRows(storage.read(np.arange(S)), torch.device("cpu"))
    assert rows.on(torch.device("cpu")) is rows
    there = rows.on(torch.device("meta"))  # has shapes and types, but no values
    assert there.device.type == there.action.device.type == "meta"
    assert there.observation["image"].shape == rows.observation["image"].shape
    assert (there.reward == rows.reward).all() and len(there) == S  # bookkeeping stays
