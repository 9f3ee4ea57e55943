"""The whole policy: acting and learning agree, for every preset and kind of action."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from rearrange.skills.network.pictures.encoder import EncoderCfg
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PRESETS, PolicyCfg
from rearrange.skills.network.precision import name_on
from rearrange.ver.rollout.types import Minibatch
from rearrange.ver.workers.spaces import ActionSpec, ArraySpec

FLOAT, BYTE = np.dtype(np.float32), np.dtype(np.uint8)
ONES = np.ones(11, np.float32)
BOX = ActionSpec(kind="box", size=11, num_choices=(), low=-ONES, high=ONES)
DISCRETE = ActionSpec(
    kind="discrete", size=2, num_choices=(3, 4), low=np.zeros(2), high=np.zeros(2)
)
TINY = replace(
    PRESETS["small"],
    hidden_sizes=[],
    encoder=EncoderCfg(base_width=4, image_size=32, compressed_size=32, feature_size=16),
    lstm_hidden=8,
    vector_size=5,
    prev_action_size=4,
)
LENGTHS = (6, 5, 5, 2, 1)  # of the sequences of a minibatch


def pick_spec(size: int = 64) -> dict[str, ArraySpec]:
    return {
        "head_depth": ArraySpec((size, size, 1), FLOAT),
        "joint": ArraySpec((7,), FLOAT),
        "is_holding": ArraySpec((1,), FLOAT),
        "relative_resting_position": ArraySpec((3,), FLOAT),
        "obj_start_sensor": ArraySpec((3,), FLOAT),
    }


VECTOR = {"observation": ArraySpec((17,), FLOAT)}


def random_observation(spec, n: int) -> dict[str, torch.Tensor]:
    return {
        name: torch.randint(0, 256, (n, *s.shape), dtype=torch.uint8)
        if s.dtype == BYTE
        else torch.rand(n, *s.shape)
        for name, s in spec.items()
    }


def roll_out(policy, spec, action_spec) -> tuple[Minibatch, torch.Tensor, torch.Tensor]:
    """Acts through sequences of LENGTHS, in packed order: the minibatch, log_prob and value."""
    steps, prev = [], torch.randint(0, 3, (len(LENGTHS), action_spec.size))
    prev = prev.float() if action_spec.kind == "box" else prev
    # The first two sequences begin episodes, the others go on from some memory.
    start = torch.randn(len(LENGTHS), policy.state_size)
    is_first = torch.tensor([True, True, False, False, False])
    state = start
    for t in range(max(LENGTHS)):
        n = sum(length > t for length in LENGTHS)
        observation = random_observation(spec, n)
        prev, is_first, state = prev[:n], is_first[:n], state[:n]
        with torch.inference_mode():
            out = policy.act(observation, prev, is_first, state)
            value = policy.value(observation, prev, is_first, state)
        assert torch.allclose(value, out.value, atol=1e-6)
        steps.append((observation, prev, is_first, out, n))
        prev, state, is_first = out.action, out.state, torch.zeros(n, dtype=torch.bool)
    observation = {name: torch.cat([step[0][name] for step in steps]) for name in spec}
    zeros = torch.zeros(sum(LENGTHS))
    minibatch = Minibatch(
        observation=observation,
        prev_action=torch.cat([step[1] for step in steps]).clone(),
        is_first=torch.cat([step[2] for step in steps]),
        action=torch.cat([step[3].action for step in steps]).clone(),
        log_prob=zeros,
        value=zeros,
        advantage=zeros,
        returns=zeros,
        is_weight=zeros,
        is_stale=zeros.bool(),
        start_state=start,
        batch_sizes=torch.tensor([step[4] for step in steps]),
    )
    log_prob = torch.cat([step[3].log_prob for step in steps]).clone()
    return minibatch, log_prob, torch.cat([step[3].value for step in steps]).clone()


def off_its_start(policy):
    """Heads far from their small starting values, so that everything shows in the outputs."""
    with torch.no_grad():
        choice = [] if policy.num_components == 1 else policy.actor.mixture.choice.parameters()
        for parameter in [
            *policy.actor.linear.parameters(), *policy.critic.parameters(), *choice,
        ]:  # fmt: skip
            parameter.add_(0.3 * torch.randn_like(parameter))
    return policy


CASES = {
    "small": (pick_spec(), BOX, PRESETS["small"]),
    "tiny, discrete": (pick_spec(32), DISCRETE, TINY),
    "mlp": (VECTOR, BOX, PRESETS["mlp"]),
    "mlp, discrete": (VECTOR, DISCRETE, PRESETS["mlp"]),
    "mlp_lstm": (VECTOR, DISCRETE, PRESETS["mlp_lstm"]),
    "two memories": (VECTOR, BOX, replace(PRESETS["mlp_lstm"], separate_critic=True)),
    "changes": (pick_spec(32), BOX, replace(TINY, base_frame_vectors=True, vector_changes=True)),
    "changes of normalised vectors": (
        VECTOR,
        BOX,
        replace(PRESETS["mlp_lstm"], vector_changes=True, normalize_observations=True),
    ),
    "changes without memory": (VECTOR, BOX, replace(PRESETS["mlp"], vector_changes=True)),
    "a choice": (pick_spec(32), BOX, replace(TINY, num_components=3)),
    "pictures of bytes": ({"observation": ArraySpec((40, 32, 3), BYTE)}, DISCRETE, TINY),
    "two cameras": ({**pick_spec(64), "arm_rgb": ArraySpec((48, 48, 3), BYTE)}, BOX, TINY),
}


@pytest.mark.parametrize("case", CASES)
def test_acting_and_learning_agree(case):
    torch.manual_seed(0)
    spec, action_spec, cfg = CASES[case]
    policy = off_its_start(build_policy(spec, action_spec, cfg))
    policy.observe(random_observation(spec, 50))
    minibatch, log_prob, value = roll_out(policy, spec, action_spec)
    evaluation = policy.evaluate(minibatch)
    torch.testing.assert_close(evaluation.log_prob, log_prob, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(evaluation.value, value, atol=1e-5, rtol=1e-5)
    assert evaluation.entropy.shape == log_prob.shape


@pytest.mark.parametrize("case", [c for c in CASES if c != "a choice"])  # imitation alone learns it
def test_gradient_reaches_every_parameter(case):
    torch.manual_seed(0)
    spec, action_spec, cfg = CASES[case]
    policy = off_its_start(build_policy(spec, action_spec, cfg))
    minibatch, _, _ = roll_out(policy, spec, action_spec)
    out = policy.evaluate(minibatch)
    (out.log_prob.square() + out.value.square() + out.entropy).sum().backward()
    without = [n for n, p in policy.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


@pytest.mark.parametrize("name", PRESETS)
def test_shapes_of_every_preset(name):
    spec = pick_spec(128) if name in ("paper", "small") else VECTOR
    for action_spec, dtype in ((BOX, torch.float32), (DISCRETE, torch.int64)):
        policy = build_policy(spec, action_spec, PRESETS[name])
        prev = torch.zeros(3, action_spec.size, dtype=dtype)
        with torch.inference_mode():
            out = policy.act(
                random_observation(spec, 3),
                prev,
                torch.ones(3, dtype=torch.bool),
                torch.zeros(3, policy.state_size),
                deterministic=True,
            )
        assert out.action.shape == (3, action_spec.size) and out.action.dtype == dtype
        assert out.log_prob.shape == out.value.shape == (3,)
        assert out.state.shape == (3, policy.state_size)
    expected = {"paper": 2 * 2 * 512, "small": 2 * 2 * 256, "mlp_lstm": 2 * 64, "mlp": 0}
    assert policy.state_size == expected[name]


@pytest.mark.parametrize(
    ("name", "encoder", "hidden", "visual", "vector", "total"),
    # the encoder's own count is done by hand in test_encoder.py
    [
        ("small", 1_108_080, 256, 256, 128, 2_272_903),
        ("paper", 4_655_072, 512, 512, 32, 8_995_671),
    ],
)
def test_parameters_counted_by_hand(name, encoder, hidden, visual, vector, total):
    policy = build_policy(pick_spec(128), BOX, PRESETS[name])
    vectors = (7 + 1 + 3 + 3) * vector + vector
    prev_action = 11 * 32 + 32
    inputs = visual + vector + 32
    middle = 0
    if name == "small":  # a layer between embeddings and memory
        middle, inputs = inputs * 256 + 256, 256
    lstm = 4 * hidden * (inputs + hidden + 2) + 4 * hidden * (hidden + hidden + 2)  # two biases
    heads = hidden * 11 + 11 + 11 + hidden + 1  # mean, log-std, value
    counted = encoder + vectors + prev_action + middle + lstm + heads
    assert sum(p.numel() for p in policy.parameters()) == counted == total


def test_episode_begins_with_nothing_remembered():
    """What stands in memory and previous action at a first step is not looked at, NaN included."""
    torch.manual_seed(0)
    policy = off_its_start(build_policy(pick_spec(32), BOX, TINY))
    observation, first = random_observation(pick_spec(32), 2), torch.ones(2, dtype=torch.bool)
    nan = float("nan")
    values = [
        policy.value(observation, torch.full((2, 11), x), first, torch.full((2, 32), y))
        for x, y in ((0.0, 0.0), (nan, nan))
    ]
    assert torch.equal(values[0], values[1])
    later = policy.value(observation, torch.ones(2, 11), ~first, torch.ones(2, 32))
    assert not torch.allclose(later, values[0])


def test_deterministic_action_is_the_mode_and_first_actions_are_small():
    torch.manual_seed(0)
    policy = build_policy(VECTOR, BOX, PRESETS["mlp"])
    args = (random_observation(VECTOR, 4), torch.zeros(4, 11), torch.ones(4).bool())
    one, two = (policy.act(*args, torch.zeros(4, 0), deterministic=True) for _ in range(2))
    assert torch.equal(one.action, two.action) and one.action.abs().max() < 0.05
    sampled = policy.act(*args, torch.zeros(4, 0))
    assert (sampled.action - one.action).abs().max() > 0.1


def test_bfloat16_acts_and_learns_close_to_float32():
    torch.manual_seed(0)
    exact = build_policy(pick_spec(), BOX, PRESETS["small"])
    rounded = build_policy(pick_spec(), BOX, replace(PRESETS["small"], precision="bfloat16"))
    rounded.load_state_dict(exact.state_dict())
    minibatch, log_prob, _ = roll_out(rounded, pick_spec(), BOX)
    ours, theirs = rounded.evaluate(minibatch), exact.evaluate(minibatch)
    # The ratio of PPO must begin near 1, between the two forms of the same rounding as well.
    torch.testing.assert_close(ours.log_prob, log_prob, atol=0.02, rtol=0)
    torch.testing.assert_close(ours.value, theirs.value, atol=0.1, rtol=0)
    ours.value.sum().backward()
    grads = [p.grad for p in rounded.embedding.parameters()]
    assert all(grad.dtype == torch.float32 and grad.isfinite().all() for grad in grads)


def test_auto_computes_in_bfloat16_only_where_the_processor_does(monkeypatch):
    cfg = replace(PRESETS["small"], precision="auto")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for is_native, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda yes=is_native: yes)
        assert build_policy(pick_spec(), BOX, cfg).embedding.encoder.dtype == dtype


def test_auto_asks_the_device_that_the_network_runs_on(monkeypatch):
    """Not whether there is another one in the machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for cpu, gpu in ((True, False), (False, True)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda yes=cpu: yes)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda yes=gpu, **_: yes)
        assert name_on("auto", "cpu") == ("bfloat16" if cpu else "float32")
        assert name_on("auto", "cuda") == ("bfloat16" if gpu else "float32")
    assert name_on("float32", "cuda") == "float32" and name_on("bfloat16", "cpu") == "bfloat16"


def test_observe_changes_only_what_it_should():
    policy = build_policy(VECTOR, BOX, PRESETS["mlp"])
    before = copy.deepcopy(policy.state_dict())
    policy.observe({"observation": torch.full((10, 17), 3.0)})
    changed = {n for n, t in policy.state_dict().items() if not torch.equal(t, before[n])}
    prefix = "embedding.normalizer."
    assert changed == {prefix + "count", prefix + "mean", prefix + "variance"}
    build_policy(pick_spec(32), BOX, TINY).observe(random_observation(pick_spec(32), 2))  # no-op


def test_act_after_an_update_uses_the_new_weights():
    torch.manual_seed(0)
    spec = pick_spec(64)
    policy = off_its_start(build_policy(spec, BOX, PRESETS["small"]))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(2):
        minibatch, log_prob, value = roll_out(policy, spec, BOX)
        evaluation = policy.evaluate(minibatch)
        torch.testing.assert_close(evaluation.value, value, atol=1e-5, rtol=1e-5)
        optimizer.zero_grad()
        evaluation.value.square().sum().backward()
        optimizer.step()


def test_bad_settings_are_one_clear_line():
    with pytest.raises(ValueError, match="activation must be one of relu, tanh, gelu, got 'swish'"):
        PolicyCfg(activation="swish")
    with pytest.raises(ValueError, match="precision must be one of float32, bfloat16, auto"):
        PolicyCfg(precision="float16")
    with pytest.raises(ValueError, match="lstm_layers must lie in .0, 64., got -1"):
        PolicyCfg(lstm_layers=-1)
    with pytest.raises(ValueError, match="hidden_sizes must all lie in"):
        PolicyCfg(hidden_sizes=[64, 0])
    with pytest.raises(ValueError, match="at least one entry"):
        build_policy({}, BOX, PRESETS["mlp"])
