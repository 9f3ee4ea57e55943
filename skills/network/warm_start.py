"""Warm start of a policy from one with other sensors: it ignores the new ones at first.

    columns of the layers that take the embedding:   [ pictures | scans | all the rest ]
                                                       zeros      zeros   as they were
    columns of the layer that takes the vectors:     [ as they were | in base frame or changes ]
                                                                      zeros

Images cost time to compute, so what can be learned without them is learned first. Several policies
on shared layers (`rearrange.ver.sapg`) all begin as the trained one: the columns of their
distinguishing vector, which come last, are zeros too. A policy with several means to choose from
begins by choosing the one that is known.

The way back: of a policy with pictures one without keeps all but the encoder and its columns. It
does not act alike: what pictures said is missing until it has learned again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rearrange.skills.network.base_frame import BASE_FRAME_SIZE
from rearrange.skills.network.embedding import Embedding

VECTOR_LAYER = "embedding.vector_layer.0.weight"
ENCODER, SCAN_LAYER = "embedding.encoder.", "embedding.scan_layer."
FIRST, OTHERS, CHOICE = "actor.linear", "actor.mixture.others", "actor.mixture.choice"
KNOWN_LOGIT = 2.0  # of the component that has learned
BLOCK_VECTORS, LOG_STD = "embedding.block_vectors", "actor.log_std"


def with_new_inputs(
    known: dict[str, Tensor], own: dict[str, Tensor], embedding: Embedding
) -> dict[str, Tensor]:
    """Weights for a policy with pictures, scans or blocks that the policy of `known` lacks, or
    without its pictures.

    Args:
        known: weights of the trained policy.
        own: fresh weights of the new policy, kept in its new parts.
        embedding: of the new policy.

    Returns `known` itself if nothing is missing or to be left out, or if the two are not related.
    """
    known = _without_pictures(known, own, embedding)
    known = _with_vectors(known, own, embedding)
    known = _with_blocks(known, own, embedding)
    known = _with_components(known, own)
    senses = {
        ENCODER: embedding.picture_size,
        SCAN_LAYER: embedding.scan_size,
    }
    lacking = {
        prefix: size
        for prefix, size in senses.items()
        if size and not any(name.startswith(prefix) for name in known)
    }
    if not lacking:
        return known
    weights = dict(known)
    for name, tensor in own.items():
        if name.startswith(tuple(lacking)):
            weights[name] = tensor
        given = known.get(name)
        if given is None or given.ndim != 2 or tensor.shape[1] != embedding.size:
            continue
        if given.shape[1] == embedding.size - sum(lacking.values()):
            weights[name] = given.new_zeros(len(given), embedding.size)
            at = taken = 0
            for prefix, size in senses.items():
                if prefix not in lacking:
                    weights[name][:, at : at + size] = given[:, taken : taken + size]
                    taken += size
                at += size
            weights[name][:, at:] = given[:, taken:]
    return weights


def _without_pictures(
    known: dict[str, Tensor], own: dict[str, Tensor], embedding: Embedding
) -> dict[str, Tensor]:
    """Leaves out the encoder, and the columns of its pictures, which come first.

    Only if all of the other inputs are the same.
    """
    if embedding.picture_size or not sees_pictures(known):
        return known
    weights = {name: given for name, given in known.items() if not name.startswith(ENCODER)}
    if weights.keys() != own.keys():
        return known
    for name, wanted in own.items():
        if wanted.ndim == 2 and wanted.shape[1] == embedding.size:
            weights[name] = weights[name][:, -embedding.size :].clone()
    return weights


def sees_pictures(weights: dict[str, Tensor]) -> bool:
    return any(name.startswith(ENCODER) for name in weights)


def with_pictures_of(
    seeing: dict[str, Tensor], known: dict[str, Tensor], picture_size: int
) -> dict[str, Tensor]:
    """`known` with the encoder of `seeing` and the columns of its pictures, which come first.

    Of what a policy without pictures has never learned, only the other can say anything.

    Args:
        picture_size: columns of pictures, as in `Embedding`.

    Returns `known` itself if it sees pictures, or if neither does.
    """
    if sees_pictures(known) or not sees_pictures(seeing):
        return known
    weights = {name: own for name, own in seeing.items() if name.startswith(ENCODER)}
    for name, given in known.items():
        own = seeing.get(name, given)
        if own.ndim == given.ndim == 2 and own.shape[1] - given.shape[1] == picture_size:
            given = torch.cat([own[:, :picture_size].to(given), given], dim=1)
        weights[name] = given
    return weights


def _with_vectors(
    known: dict[str, Tensor], own: dict[str, Tensor], embedding: Embedding
) -> dict[str, Tensor]:
    """Zeros for the vectors in the base's frame, or for changes, whichever come last."""
    given, wanted = known.get(VECTOR_LAYER), own.get(VECTOR_LAYER)
    if given is None or wanted is None or len(given) != len(wanted):
        return known
    num_new = wanted.shape[1] - given.shape[1]
    in_base = BASE_FRAME_SIZE * len(embedding.in_hand_frame)
    if num_new <= 0 or num_new not in (in_base, embedding.change_size):
        return known
    return known | {VECTOR_LAYER: torch.cat([given, given.new_zeros(len(given), num_new)], dim=1)}


def _with_blocks(
    known: dict[str, Tensor], own: dict[str, Tensor], embedding: Embedding
) -> dict[str, Tensor]:
    """Copies one policy to each of several."""
    if BLOCK_VECTORS not in own or BLOCK_VECTORS in known:
        return known
    weights = known | {BLOCK_VECTORS: own[BLOCK_VECTORS]}
    num_new = own[BLOCK_VECTORS].shape[1]
    for name, given in known.items():
        wanted = own.get(name)
        if wanted is None or wanted.ndim != 2:
            continue
        if name == LOG_STD and given.ndim == 1:
            weights[name] = given.repeat(len(wanted), 1)
        elif given.ndim == 2 and given.shape[1] < wanted.shape[1] == embedding.size:
            weights[name] = torch.cat([given, given.new_zeros(len(given), num_new)], dim=1)
    return weights


def _with_components(known: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Other components around the one that is known, which is chosen at first."""
    if CHOICE + ".weight" not in own or CHOICE + ".weight" in known or FIRST + ".bias" not in known:
        return known
    chosen = own[CHOICE + ".bias"].clone()
    chosen[0] = KNOWN_LOGIT
    weights = known | {CHOICE + ".weight": own[CHOICE + ".weight"], CHOICE + ".bias": chosen}
    for part in ("weight", "bias"):
        one, others = known[f"{FIRST}.{part}"], own[f"{OTHERS}.{part}"]
        weights[f"{OTHERS}.{part}"] = others + torch.cat([one] * (len(others) // len(one)))
    return weights
