"""Settings that a training begins with where nothing else was said: by environment, and by skill.

the environment's spaces --> SUITING                        `rearrange train`
skill, method, stage     --> recipe                         `rearrange train-skill`
a task that ends by stop --> first_actions                  both, with any network
"""

from __future__ import annotations

from rearrange.configs.training import TrainSkillCfg
from rearrange.tasks.actions import STOP, action_slots
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.tasks.rules.rulebook import make_task

_WORDS = tuple[str, ...]

RECIPE_PRESETS = ("auto", "small")  # networks that recipes are for
STOP_MEAN = -0.9  # of a fresh policy's stop, which is called above 0
STOP_LOG_STD = -1.0  # of its actions where there is one: stop is called in one step of 140

SUITING: dict[str, tuple[str, ...]] = {
    # as the paper: rewards and observations of the home have sensible sizes
    "pictures": ("policy=small",),
    # Rewards are divided by their spread: CartPole's returns of 100 and more else leave the policy,
    # whose gradient is clipped together with the critic's, next to nothing. Advantages are not:
    # once a task is solved they are noise, and must not weigh as if they were more (MaskedCartPole
    # forgot in some runs what it had learned). The entropy's share is as small.
    "discrete": (
        "policy=mlp_lstm",
        "ppo.learning_rate=1e-3",
        "ppo.num_epochs=4",
        "ppo.num_minibatches=4",
        "normalize_rewards=true",
        "entropy.learned=false",
        "entropy.initial=0.001",
    ),
    # Minibatches of 64 steps, as in Stable-Baselines3's PPO. There is no memory: policy=mlp_lstm,
    # which learned Pendulum more slowly, is for what one observation does not tell.
    "box": (
        "policy=mlp",
        "num_steps=256",
        "ppo.learning_rate=1e-3",
        "ppo.num_epochs=10",
        "ppo.num_minibatches=32",
        "ppo.normalize_advantages=true",
        "normalize_rewards=true",
        "entropy.learned=false",
        "entropy.initial=0",
    ),
}
"""What `train` adds for a kind of environment, as if it stood first on the command line."""

SKILL_RECIPES: dict[str, tuple[str, ...]] = {
    # Rollouts and minibatches of a 2-core machine: several small steps on each step collected.
    "ver": (
        "num_envs=16",
        "workers.envs_per_worker=0",
        "num_steps=128",
        "collector.min_batch=4",
        "policy.precision=auto",
        "ppo.learning_rate=3e-4",
        "ppo.num_epochs=3",
        "ppo.num_minibatches=4",
        "ppo.normalize_advantages=true",
        "ppo.max_sequence_length=32",
    ),
    # The Gaussians have from the start the width that the entropy's target asks for: ln 0.24.
    # What is imitated may be older: collecting goes on beside learning.
    "imitation": (
        "policy.initial_log_std=-1.4",
        "policy.precision=float32",
        "overlap=true",
        "guide.policy_turn=[10,120]",
        "guide.teacher_turn=[10,80]",
        "ppo.learning_rate=1e-3",
        "ppo.num_epochs=6",
    ),
    # The critic's error, whose gradient is an order larger, does not drown what was learned. Few
    # large rollouts: some ten episodes say too little of where a policy fails one time in ten.
    "blind": (
        "policy.initial_log_std=-1.4",
        "policy.precision=float32",
        "num_steps=512",
        "ppo.num_minibatches=8",
        "ppo.learning_rate=1.5e-4",
        "ppo.target_kl=0.03",
        "ppo.critic_updates=3",
        "ppo.value_coef=0.05",
    ),
    "tuning": (
        "policy.initial_log_std=-1.4",
        "ppo.learning_rate=1e-4",
        "ppo.target_kl=0.03",
        "ppo.critic_updates=8",
        "ppo.value_coef=0.05",
    ),
}
"""For `train-skill` with the `small` network; a skill's own words stand behind them."""


def recipe(settings: TrainSkillCfg) -> _WORDS:
    """The skill's recipe, which is for the `small` network; others learn as the paper says."""
    if settings.policy.name not in RECIPE_PRESETS:
        return ()
    words = SKILL_RECIPES["ver"]
    is_blind = settings.env_kwargs.get("depth") is False
    if settings.method == "imitation":
        words += (*SKILL_RECIPES["imitation"], *settings.skill.imitation)
        if settings.serial:
            words += ("overlap=false",)
    elif settings.warm_start is not None and is_blind:
        words += (*SKILL_RECIPES["blind"], *settings.skill.blind)
    elif settings.warm_start is not None:
        words += (*SKILL_RECIPES["tuning"], *settings.skill.tuning)
    else:
        words += (*settings.skill.recipe,)
    return ("policy=small", *words)


def first_actions(env_id: str, action_space: str) -> _WORDS:
    """How the actions of fresh weights begin, whatever the network; none where all may be 0.

    Not for imitation: there the teacher acts first.
    """
    task = TASK_OF_ID.get(env_id)
    means = first_means(task, action_space) if task is not None else []
    if not means:
        return ()
    return (f"policy.initial_log_std={STOP_LOG_STD}", f"policy.initial_means={means}")


def first_means(task: str, action_space: str) -> list[float]:
    """Mean actions of a fresh policy; empty where all may be 0.

    A task that ends by `stop` would around 0 end every episode at once, and nothing be seen of it.
    """
    if not make_task(task).rules.is_stop_used:
        return []
    return [STOP_MEAN if slot == STOP else 0.0 for slot in action_slots(task, action_space)]
