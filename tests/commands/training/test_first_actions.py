"""What trainings begin with: a fresh policy of any network sees something of its task."""

import math

import pytest
import torch
from gymnasium import spaces

from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.training_env import training_env_of
from rearrange.skills.network.actions.heads import action_head
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PRESETS
from rearrange.tasks.actions import STOP, action_slots
from rearrange.tasks.gym_factory import read_spaces
from rearrange.tasks.rules.names import SKILL_TASKS, TASK_OF_ID
from rearrange.tasks.rules.rulebook import make_task
from rearrange.ver.workers.spaces import action_spec, observation_spec

ENDS_BY_STOP = [task for task in SKILL_TASKS if make_task(task).rules.is_stop_used]


def chance_of_stop(mean, log_std, slots):
    """Of one step whose action has these Gaussians, [A] each; the other means are near 0."""
    place = slots.index(STOP)
    assert max(abs(value) for i, value in enumerate(mean.tolist()) if i != place) < 0.2
    return 0.5 * math.erfc(-float(mean[place] / log_std[place].exp()) / math.sqrt(2.0))


@torch.inference_mode()
@pytest.mark.parametrize("task", ENDS_BY_STOP)
def test_no_skill_with_any_network_stops_at_once(task):
    for name, preset in PRESETS.items():
        policy = load_training("train-skill", [task, f"policy={name}"]).policy
        means = policy.initial_means
        # the actor of this network, whose features are the hidden layers' or the memory's
        width = preset.lstm_hidden if preset.lstm_layers else preset.hidden_sizes[-1]
        actions = action_spec(spaces.Box(-1.0, 1.0, (len(means),)))
        head = action_head(width, actions, policy.initial_log_std, means)
        distribution = head(torch.empty(1, width).uniform_(-1.0, 1.0))
        chance = chance_of_stop(
            distribution.mean[0], distribution.log_std, action_slots(task, "full")
        )
        assert 0.001 < chance < 0.03, name


@torch.inference_mode()
@pytest.mark.parametrize(
    "verb, arguments",
    [
        ("train-skill", ["close_fridge", "policy=paper"]),
        ("train-skill", ["close_drawer", "policy=paper", "action_space=stationary"]),
        ("train-skill", ["navigate", "policy=mlp_lstm", "action_space=skill"]),
        ("train-skill", ["open_drawer", "env_kwargs.action_space=stationary"]),
        ("train", ["env=rearrange/Navigate-v0"]),
        ("train", ["env=rearrange/TidyHouse-v0", "policy=mlp", "env_kwargs.depth=false"]),
    ],
)
def test_nor_with_other_actions_or_by_the_other_verb(verb, arguments):
    narrow = [f"policy.encoder.{size}" for size in ("base_width=4", "image_size=16")]
    narrow += ["policy.encoder.norm_groups=1", "policy.encoder.compressed_size=64"]
    cfg = load_training(verb, [*arguments, *narrow, "policy.lstm_hidden=16"])
    training_env = training_env_of(cfg)
    seen, actions = read_spaces(training_env.env_id, training_env.kwargs)
    policy = build_policy(observation_spec(seen), action_spec(actions), cfg.policy)
    observation = {
        name: torch.zeros(1, *space.shape, dtype=torch.float32) for name, space in seen.items()
    }
    step = policy.act(
        observation, torch.zeros(1, *actions.shape), torch.ones(1, dtype=torch.bool),
        torch.zeros(1, policy.state_size), deterministic=True,
    )  # fmt: skip
    slots = action_slots(
        TASK_OF_ID[training_env.env_id], training_env.kwargs.get("action_space", "full")
    )
    assert 0.001 < chance_of_stop(step.action[0], policy.actor.log_std, slots) < 0.03


@pytest.mark.parametrize(
    "arguments", [["pick"], ["navigate", "method=imitation"], ["navigate", "warm_start=runs/a"]]
)
def test_where_nothing_is_to_be_kept_from_stopping_no_means_are_given(arguments):
    assert load_training("train-skill", arguments).policy.initial_means == []
