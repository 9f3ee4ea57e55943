"""Sequences of a rollout, and minibatches of them in the layout of a packed sequence.

A rollout of variable experience is an unordered set of rows, with any number per environment. Rows
of one environment and episode with consecutive step numbers form a sequence. Sequences are
shuffled, concatenated and cut into equal parts (Wijmans et al. 2022, VER, section 2); the pieces of
a part are sorted longest first and read step by step:

    a0 a1 a2 a3                                    rows         a0 b0 c0 | a1 b1 | a2 b2 | a3
    b0 b1 b2         steps 0, 1, 2, 3 of each  ->  batch_sizes  3          2       2       1
    c0                                             first_rows   a0 b0 c0

which is what torch's PackedSequence and cuDNN read without padding.

S: rows of a rollout, Q: sequences, B: rows of a minibatch, L: steps of its longest sequence.
"""

from typing import NamedTuple

import numpy as np


class PackedRows(NamedTuple):
    """One minibatch, as rows of the rollout."""

    rows: np.ndarray
    """[B] int64, in packed layout."""
    batch_sizes: np.ndarray
    """[L] int64, falling; how many sequences have a first, second, ... step."""
    first_rows: np.ndarray
    """[Q] int64, each sequence's first row, longest sequence first: its memory is stored there."""


def find_sequences(
    env_ids: np.ndarray,  # [S] int
    episode_ids: np.ndarray,  # [S] int
    step_ids: np.ndarray,  # [S] int, counted within the episode
) -> tuple[np.ndarray, np.ndarray]:
    """`order` [S], the rows by environment, episode and step, and the sequences' `lengths` [Q].

    A sequence ends where the environment or the episode changes or a step number is missing.
    """
    env_ids, episode_ids, step_ids = map(np.asarray, (env_ids, episode_ids, step_ids))
    if not env_ids.shape == episode_ids.shape == step_ids.shape == (len(env_ids),):
        shapes = env_ids.shape, episode_ids.shape, step_ids.shape
        raise ValueError(f"env_ids, episode_ids and step_ids must be [S] alike, got {shapes}")
    order = np.lexsort((step_ids, episode_ids, env_ids))
    is_start = np.ones(len(order), dtype=bool)
    is_start[1:] = (
        (np.diff(env_ids[order]) != 0)
        | (np.diff(episode_ids[order]) != 0)
        | (np.diff(step_ids[order]) != 1)
    )
    starts = np.flatnonzero(is_start)
    return order, np.diff(starts, append=len(order))


def minibatch_rows(
    order: np.ndarray,  # [S] rows, sequences one after another
    lengths: np.ndarray,  # [Q] of the sequences
    num_minibatches: int,
    rng: np.random.Generator,
    max_length: int | None = None,
) -> list[PackedRows]:
    """One epoch: every row in exactly one of `num_minibatches` parts, in random order.

    The parts are equal, or differ by one row where S is not divisible by their number.

    A cut between two parts may split a sequence; each piece is then a sequence of its own, which
    starts from the memory stored at its first row. `max_length` cuts sequences before they are
    shuffled (truncated back-propagation through time). Raises ValueError unless there is a row for
    each part and S is the sum of the lengths.
    """
    num_rows = len(order)
    if not 1 <= num_minibatches <= num_rows:
        raise ValueError(
            f"num_minibatches ({num_minibatches}) must be at least 1 and at most the rollout's "
            f"steps ({num_rows})"
        )
    if np.sum(lengths) != num_rows or np.min(lengths) < 1:
        raise ValueError(
            f"lengths must be positive and add up to the rollout's steps ({num_rows}), "
            f"got {np.sum(lengths)}"
        )
    starts = np.cumsum(lengths) - lengths
    if max_length is not None:
        starts, lengths = _cut(starts, lengths, max_length)

    shuffled = rng.permutation(len(lengths))
    starts, lengths = starts[shuffled], lengths[shuffled]
    new_starts = np.cumsum(lengths) - lengths
    laid_out = order[np.repeat(starts - new_starts, lengths) + np.arange(num_rows)]

    cuts = np.arange(num_minibatches + 1) * num_rows // num_minibatches
    piece_starts = np.union1d(new_starts, cuts[:-1])
    piece_lengths = np.diff(piece_starts, append=num_rows)
    first_pieces = np.searchsorted(piece_starts, cuts)
    return [
        _pack(
            laid_out[cuts[part] : cuts[part + 1]],
            piece_lengths[first_pieces[part] : first_pieces[part + 1]],
        )
        for part in rng.permutation(num_minibatches)
    ]


def _cut(starts: np.ndarray, lengths: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of the sequences' pieces of at most `max_length` rows."""
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}")
    num_pieces = -(-lengths // max_length)
    nth_piece = np.arange(int(num_pieces.sum())) - np.repeat(
        np.cumsum(num_pieces) - num_pieces, num_pieces
    )
    offsets = nth_piece * max_length
    return (
        np.repeat(starts, num_pieces) + offsets,
        np.minimum(np.repeat(lengths, num_pieces) - offsets, max_length),
    )


def _pack(rows: np.ndarray, lengths: np.ndarray) -> PackedRows:
    """Sequences laid end to end -> packed layout, longest first."""
    by_length = np.argsort(-lengths, kind="stable")
    rank = np.empty_like(by_length)
    rank[by_length] = np.arange(len(lengths))
    # sequences with a step t: all but those of at most t steps
    batch_sizes = len(lengths) - np.cumsum(np.bincount(lengths))[:-1]
    step = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    packed = np.empty_like(rows)
    packed[(np.cumsum(batch_sizes) - batch_sizes)[step] + np.repeat(rank, lengths)] = rows
    return PackedRows(packed, batch_sizes, packed[: len(lengths)])
