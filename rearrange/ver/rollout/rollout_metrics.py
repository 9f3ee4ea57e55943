"""A rollout's report as metrics: time per phase, speed, shares and faults."""

from __future__ import annotations

from rearrange.ver.rollout.report import CollectReport


def rollout_metrics(
    report: CollectReport,
    num_envs: int,
    wall_s: float,  # from the last update's end to this one's
    learn_s: float,
    is_alternating: bool,  # environments rest while there is learning
) -> dict[str, float]:
    """phase/..., speed/..., ver/share_... and faults/... of one rank."""
    # E environments, each for the whole of the wall time
    total = num_envs * wall_s
    shares = {
        "env": report.environment_s / total,
        "infer": report.inference_env_s / total,
        "learn": learn_s / wall_s if is_alternating else 0.0,
    }
    wait = max(0.0, 1.0 - sum(shares.values()))
    phases = {f"phase/{name}": share for name, share in (shares | {"wait": wait}).items()}
    share = report.steps_per_env / max(1, report.steps_per_env.sum())
    return phases | {
        "speed/sps": report.num_steps / wall_s,
        "speed/collect_s": report.wall_s,
        "speed/learn_s": learn_s,
        "speed/inference_s": report.inference_s,
        "speed/idle_s": report.waiting_s,
        "speed/batch_size": report.num_requests / max(1, report.num_batches),
        "ver/share_max": float(share.max()),
        "ver/share_min": float(share.min()),
        "faults/nonfinite": report.num_nonfinite,
        "faults/dropped_steps": report.num_dropped_steps,
    }
