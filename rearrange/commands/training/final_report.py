"""What a training prints at its end: the results, and the commands to use them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rearrange.commands.training.training_env import TrainingEnv, named_for_others
from rearrange.skills.network.policy_cfg import STANDARD
from rearrange.ver.run.weights_and_biases import ID_FILE


def table(summary: dict[str, Any], run_dir: Path) -> str:
    """The summary for people."""
    rate = summary["steps_per_second"]
    rows = {
        "env": f"{summary['env']}, mode {summary['mode']}",
        "steps": f"{summary['total_steps']} in {summary['wall_time_s']:.1f} s"
        + (f", {rate:.0f} a second" if rate else ""),
        "return": _mean(summary["episode_return"], "{:.4g}"),
        "success": _mean(summary["success"], "{:.1%}"),
        "best": _best(summary["best"]),
        "restarts": str(summary["restarts"]),
        "run_dir": str(run_dir),
    }
    return "\n".join(f"{name:<10}{value}" for name, value in rows.items())


def what_next(
    training_env: TrainingEnv, summary: dict[str, Any], run_dir: Path, network: str = STANDARD
) -> str:
    """Commands that a run is for, each to be typed as it stands.

    Args:
        network: the policy's, by its name.
    """
    best = summary["best"]
    run = best["checkpoint"] if best is not None else str(run_dir)
    name = Path(training_env.short_name).name
    commands = {
        "curves": ["plot", str(run_dir), f"output={run_dir / 'curves.png'}"],
        "how good": ["evaluate", f"run={run}", "num_episodes=100"],
        "keep it": ["export-skill", f"run={run}", f"output={run_dir / name}.safetensors"],
    }
    if training_env.is_elsewhere:
        del commands["how good"]  # evaluated in this Python
    elif ":" in (env := named_for_others(training_env, network)):
        for what in ("how good", "keep it"):  # files import nothing: whose module it is is typed
            commands[what].append(f"env={env}")
    lines = [f"{what:<10}rearrange {shlex.join(arguments)}" for what, arguments in commands.items()]
    if (run_dir / ID_FILE).exists():
        live = f"wandb sync {shlex.quote(str(run_dir / 'wandb'))}/offline-run-* (if it was offline)"
    else:
        live = f"tensorboard --logdir {shlex.quote(str(run_dir / 'tensorboard'))}"
    lines.append(f"{'live':<10}{live}")
    return "\n".join(["", *lines])


def _best(best: dict[str, Any] | None) -> str:
    if best is None:
        return "none: too few episodes that rank policies, or no validation"
    return f"{best['metric']} {best['value']:.4g} in {best['checkpoint']}"


def _mean(statistics: dict[str, float] | None, form: str) -> str:
    """Mean, spread and number of a figure over the last episodes."""
    if statistics is None:
        return "none"
    mean, std = form.format(statistics["mean"]), form.format(statistics["std"])
    return f"{mean} +- {std} (last {statistics['episodes']} episodes)"
