"""Sequences and packed minibatches against slow loops, and a packed LSTM against single steps."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from rearrange.ver.update.packing import find_sequences, minibatch_rows


def random_rollout(seed, num_envs, size):
    """Shuffled rows (env, episode, step) of environments that give unequal shares."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(num_envs))
    episode = rng.integers(0, 5, num_envs)
    step = rng.integers(0, 30, num_envs)  # episodes go on from the rollout before
    rows = []
    for env in rng.choice(num_envs, size=size, p=shares):
        rows.append((env, episode[env], step[env]))
        step[env] += 1
        if rng.random() < 0.1:
            episode[env], step[env] = episode[env] + 1, 0
    rows = np.array(rows)[rng.permutation(size)]
    return rows[:, 0], rows[:, 1], rows[:, 2]


def columns(minibatch):
    """A minibatch's sequences, one list of rows each, as torch itself unpacks them."""
    packed = PackedSequence(
        torch.from_numpy(minibatch.rows), torch.from_numpy(minibatch.batch_sizes)
    )
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    return [row[:length].tolist() for row, length in zip(padded, lengths.tolist(), strict=True)]


SHAPES = [(1, 1, 1), (1, 12, 3), (3, 12, 12), (4, 64, 2), (16, 256, 4), (7, 250, 5), (50, 60, 2)]


def test_sequences_are_runs_of_consecutive_steps_of_one_episode():
    for seed, (num_envs, size, _) in enumerate(SHAPES):
        env_ids, episode_ids, step_ids = random_rollout(seed, num_envs, size)
        rows_of = {
            key: row for row, key in enumerate(zip(env_ids, episode_ids, step_ids, strict=True))
        }
        expected = []
        for env, episode, step in sorted(rows_of):
            if (env, episode, step - 1) not in rows_of:
                expected.append([])
            expected[-1].append(rows_of[env, episode, step])
        order, lengths = find_sequences(env_ids, episode_ids, step_ids)
        assert lengths.tolist() == [len(sequence) for sequence in expected]
        assert order.tolist() == sum(expected, [])


def test_missing_step_starts_a_new_sequence():
    order, lengths = find_sequences([0, 0, 0, 0], [2, 2, 2, 2], [7, 4, 5, 8])
    assert order.tolist() == [1, 2, 0, 3]
    assert lengths.tolist() == [2, 2]


@pytest.mark.parametrize("max_length", [None, 1, 4])
def test_every_row_lies_in_exactly_one_minibatch_and_all_are_of_one_size(max_length):
    for seed, (num_envs, size, num_minibatches) in enumerate(SHAPES):
        order, lengths = find_sequences(*random_rollout(seed, num_envs, size))
        rng = np.random.default_rng(seed)
        for _epoch in range(3):
            parts = minibatch_rows(order, lengths, num_minibatches, rng, max_length)
            assert [len(part.rows) for part in parts] == [size // num_minibatches] * len(parts)
            assert len(parts) == num_minibatches
            counts = Counter(row for part in parts for row in part.rows.tolist())
            assert counts == Counter(range(size))


@pytest.mark.parametrize("max_length", [None, 1, 4])
def test_unpacked_sequences_are_runs_of_the_rollout_longest_first(max_length):
    for seed, (num_envs, size, num_minibatches) in enumerate(SHAPES):
        ids = random_rollout(seed, num_envs, size)
        rng = np.random.default_rng(seed)
        parts = minibatch_rows(*find_sequences(*ids), num_minibatches, rng, max_length)
        for part in parts:
            pieces = columns(part)
            assert part.first_rows.tolist() == [piece[0] for piece in pieces]
            assert part.batch_sizes.dtype == np.int64
            lengths = [len(piece) for piece in pieces]
            assert lengths == sorted(lengths, reverse=True)
            assert max_length is None or lengths[0] <= max_length
            for piece in pieces:
                env_ids, episode_ids, step_ids = (column[piece] for column in ids)
                assert len(set(env_ids)) == len(set(episode_ids)) == 1
                assert step_ids.tolist() == list(range(step_ids[0], step_ids[0] + len(piece)))


def test_packed_layout_is_the_picture_of_the_module():
    # a: rows 0-3, b: rows 4-6, c: row 7
    (part,) = minibatch_rows(np.arange(8), np.array([4, 3, 1]), 1, np.random.default_rng(0))
    assert part.rows.tolist() == [0, 4, 7, 1, 5, 2, 6, 3]
    assert part.batch_sizes.tolist() == [3, 2, 2, 1]
    assert part.first_rows.tolist() == [0, 4, 7]


def test_cuts_split_as_few_sequences_as_there_are_cuts():
    order, lengths = find_sequences(*random_rollout(3, 16, 256))
    parts = minibatch_rows(order, lengths, 4, np.random.default_rng(0))
    pieces = sum(len(part.first_rows) for part in parts)
    assert len(lengths) <= pieces <= len(lengths) + 3


def test_epochs_differ_and_a_seed_repeats_them():
    order, lengths = find_sequences(*random_rollout(4, 16, 256))

    def epochs(seed):
        rng = np.random.default_rng(seed)
        return [
            [part.rows.tolist() for part in minibatch_rows(order, lengths, 2, rng)]
            for _ in range(2)
        ]

    assert epochs(0) == epochs(0)
    assert epochs(0)[0] != epochs(0)[1]


def lstm_step(lstm, x, h, c):
    """One step of a one-layer LSTM, by the formula in torch's documentation."""
    gates = lstm.weight_ih_l0 @ x + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ h + lstm.bias_hh_l0
    i, f, g, o = gates.chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@pytest.mark.parametrize("max_length", [None, 3])
def test_packed_lstm_equals_stepwise_lstm(max_length):
    env_ids, episode_ids, step_ids = random_rollout(5, 5, 60)
    order, lengths = find_sequences(env_ids, episode_ids, step_ids)
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4)
    x, wanted = torch.randn(60, 3), torch.randn(60, 4)
    starts = np.cumsum(lengths) - lengths
    place = dict(zip(order.tolist(), np.arange(60) - np.repeat(starts, lengths), strict=True))

    # collecting: memory before every row; a sequence goes on from some memory, or from none
    stored, outputs = torch.zeros(60, 8), torch.zeros(60, 4)
    with torch.no_grad():
        for start, length in zip(starts, lengths, strict=True):
            is_first = step_ids[order[start]] == 0
            h, c = torch.zeros(4) if is_first else torch.randn(4), torch.zeros(4)
            for row in order[start : start + length]:
                stored[row] = torch.cat([h, c])
                h, c = lstm_step(lstm, x[row], h, c)
                outputs[row] = h

    parts = minibatch_rows(order, lengths, 4, np.random.default_rng(1), max_length)
    assert max_length or sum(len(part.first_rows) for part in parts) > len(lengths)  # some split
    for part in parts:
        # learning, packed
        lstm.zero_grad()
        h0, c0 = stored[part.first_rows].chunk(2, dim=1)
        packed = PackedSequence(x[part.rows], torch.from_numpy(part.batch_sizes))
        out = lstm(packed, (h0[None].contiguous(), c0[None].contiguous()))[0].data
        torch.testing.assert_close(out, outputs[part.rows], rtol=0, atol=1e-5)
        (out * wanted[part.rows]).sum().backward()
        gradients = [parameter.grad.clone() for parameter in lstm.parameters()]

        # learning, step by step: from the stored memory unless the row before is in this part
        lstm.zero_grad()
        loss, inside, before = 0.0, set(part.rows.tolist()), None
        for row in order.tolist():
            if row not in inside:
                before = None
                continue
            is_cut = place[row] == 0 or (max_length and place[row] % max_length == 0)
            if before is None or is_cut:
                h, c = stored[row].chunk(2)
            h, c = lstm_step(lstm, x[row], h, c)
            before = row
            loss = loss + (h * wanted[row]).sum()
        loss.backward()
        for parameter, gradient in zip(lstm.parameters(), gradients, strict=True):
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("lengths", "num_minibatches", "max_length", "message"),
    [
        ([6, 4], 11, None, r"\(11\) must be .* at most the rollout's steps \(10\)"),
        ([6, 4], 0, None, r"num_minibatches \(0\) must be at least 1"),
        ([6, 5], 2, None, r"add up to the rollout's steps \(10\), got 11"),
        ([6, 4], 2, 0, "max_length must be at least 1, got 0"),
    ],
)
def test_wrong_numbers_are_refused_in_one_line(lengths, num_minibatches, max_length, message):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=message) as caught:
        minibatch_rows(np.arange(10), np.array(lengths), num_minibatches, rng, max_length)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("num_minibatches", [1, 2, 3, 4, 11])
def test_a_rollout_that_cannot_be_cut_evenly_is_learned_from_whole(num_minibatches):
    rng = np.random.default_rng(0)
    parts = minibatch_rows(np.arange(11), np.array([4, 5, 1, 1]), num_minibatches, rng)
    sizes = [len(part.rows) for part in parts]
    assert len(sizes) == num_minibatches and max(sizes) - min(sizes) <= 1
    assert sorted(row for part in parts for row in part.rows) == list(range(11))
