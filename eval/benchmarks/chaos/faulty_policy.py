"""Trains a policy that returns NaN once during learning.

    python -m rearrange.eval.benchmarks.chaos.faulty_policy

The command's own policies cannot be made to do this from outside, so `chaos` runs this module
instead of `rearrange train`, with the same overrides run_dir, on_nonfinite and total_steps.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from rearrange.skills.network.policy import SkillPolicy
from rearrange.skills.network.policy_cfg import PRESETS
from rearrange.tasks.gym_factory import make_gym
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.rollout.types import Evaluation, Minibatch
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

BROKEN_MINIBATCH = 12  # in the second update, with 6 minibatches each
BROKEN_STEP = 5  # row of that minibatch


class FaultyPolicy(SkillPolicy):
    """Returns one NaN value in one minibatch."""

    num_evaluated = 0

    def evaluate(self, minibatch: Minibatch) -> Evaluation:
        evaluation = super().evaluate(minibatch)
        self.num_evaluated += 1
        if self.num_evaluated == BROKEN_MINIBATCH:
            evaluation.value[BROKEN_STEP] = float("nan")
        return evaluation


def build(observation: ObservationSpec, action: ActionSpec) -> FaultyPolicy:
    return FaultyPolicy(observation, action, PRESETS["mlp"])


def main(overrides: list[str]) -> int:
    given = dict(override.split("=", 1) for override in overrides)
    cfg = TrainerCfg(
        num_envs=4,
        num_steps=64,
        total_steps=int(given["total_steps"]),
        device="cpu",
        on_nonfinite=given["on_nonfinite"],
    )
    make_env = partial(make_gym, env_id="CartPole-v1", num_envs=cfg.num_envs)
    try:
        Trainer(make_env, build, cfg, Path(given["run_dir"])).run()
    except NonFinite as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
