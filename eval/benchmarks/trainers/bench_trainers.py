"""`rearrange bench trainers`: steps per second of every training mode, in one run.

    straggler     16 environments that only sleep (R1), policy and learner that only sleep: what a
                  mode's organisation costs, beside the ideal and what the mode can reach
    open_fridge,  the home's own environments and network, all on this machine's cores or device;
    pick, ...     for pick also other trainers, where they are installed

A rate counts from the end of the warm-up to the end of the last update; its maximum is that of the
best single rollout (VER paper, table 1). Time is shared out for each environment: stepping and
resetting, inference that it waits for, learning, and other waiting.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from rearrange.configs.benches import BenchTrainersCfg
from rearrange.errors import UserError
from rearrange.eval.benchmarks.criteria import names_of, report
from rearrange.eval.benchmarks.peers import peers
from rearrange.eval.benchmarks.trainers import bench_ideal
from rearrange.eval.benchmarks.trainers.bench_ideal import Workload
from rearrange.eval.benchmarks.trainers.collection import COLLECTION, HOMES, measure_collection
from rearrange.eval.missing_episodes import versions
from rearrange.system.machine import num_cores, pick_device
from rearrange.system.outputs import kept_or_temporary, prepare_output
from rearrange.tasks.rules.names import SKILL_TASKS
from rearrange.ver.update.ppo_learner import PPO

STRAGGLER, BATCHED = "straggler", "batched"
PEER_TASK = "pick"
PHASES = ("env", "infer", "learn", "wait")
PEER_TIMEOUT_S = 1800.0  # 30 minutes for 8192 steps would be 5 a second
NEVER_S = 1e9


@dataclass
class Threshold:
    """A figure that has to reach a limit (design.md, section 9)."""

    name: str
    value: float
    limit: float

    @property
    def is_met(self) -> bool:
        return self.value >= self.limit


def run(cfg: BenchTrainersCfg) -> int:
    """Measures, prints tables and returns 1 if a threshold is missed.

    Raises UserError for a name that does not exist, before anything is measured.
    """
    workloads = names_of("workloads", cfg.workloads, (STRAGGLER, *SKILL_TASKS))
    modes = names_of("modes", cfg.modes, (*bench_ideal.MODES, BATCHED))
    pick_device(cfg.device)
    peer_names = find_peers(cfg) if PEER_TASK in workloads else []
    prepare_output(cfg.output)
    results = measure(cfg, workloads, modes, peer_names)
    criteria = criteria_of(results["workloads"])
    return report(table(results, criteria), results, criteria, cfg.output)


def find_peers(cfg: BenchTrainersCfg) -> list[str]:
    """The other trainers to run. Raises UserError for one that is asked for and not there."""
    if cfg.peers == "none":
        return []
    python = peers.check_python(cfg.peers_python or sys.executable)
    if cfg.peers == "auto":
        return [name for name in peers.PEERS if peers.is_installed(name, python)]
    names = names_of("peers", cfg.peers, tuple(peers.PEERS))
    for name in names:
        if not peers.is_installed(name, python):
            raise UserError(
                f"{python} cannot import {peers.PEERS[name][1]} beside mujoco, numba and gymnasium;"
                " name a Python that can with peers_python"
            )
    return names


def measure(
    cfg: BenchTrainersCfg, workloads: list[str], modes: list[str], peer_names: list[str]
) -> dict[str, Any]:
    """The results, as written to the JSON file; rates in steps per second."""
    results: dict[str, Any] = {"settings": asdict(cfg), "workloads": {}}
    with kept_or_temporary(cfg.keep_dir, "bench-") as root:
        for name in workloads:
            taken: dict[str, list[dict[str, Any]]] = {}
            for turn in range(cfg.repeats):
                for mode in modes:
                    run_dir = root / name / (mode if turn == 0 else f"{mode}-{turn}")
                    taken.setdefault(mode, []).append(measure_mode(cfg, name, mode, run_dir))
                    _tell(name, mode, taken[mode][-1])
                for peer in peer_names if name == PEER_TASK else ():
                    try:
                        answer = measure_peer(cfg, peer)
                    except RuntimeError as error:  # what is measured of our own is kept
                        answer = {"error": str(error)}
                    taken.setdefault(peer, []).append(answer)
                    _tell(name, peer, answer)
            results["workloads"][name] = rates = {
                who: combined(parts, cfg.num_envs * cfg.num_steps) for who, parts in taken.items()
            }
            if name == STRAGGLER:
                add_calculated(rates, cfg)
            elif BATCHED in modes:
                rates |= measure_collection(cfg, name)
                _tell(name, COLLECTION, rates[COLLECTION])
    results["machine"] = {"processor": platform.processor() or platform.machine()} | {
        "cores": num_cores(), "system": platform.platform()
    }  # fmt: skip
    results["versions"] = versions() | {"torch": metadata.version("torch")}
    return results


def measure_mode(cfg: BenchTrainersCfg, name: str, mode: str, run_dir: Path) -> dict[str, Any]:
    """Trains for the warm-up and the measured rollouts; what the run's log says of them."""
    from rearrange.eval.benchmarks.trainers.bench_stubs import (
        SleepLearnerFactory,
        SleepPolicyFactory,
    )
    from rearrange.eval.benchmarks.trainers.sleeping_pool import (
        DeferredSleepFactory,
        LockstepSleepers,
    )
    from rearrange.skills.network.policy import build_policy
    from rearrange.skills.network.policy_cfg import PRESETS
    from rearrange.tasks.gym_factory import make_gym, make_gym_vec
    from rearrange.ver.batched.start_cfg import BatchedCfg
    from rearrange.ver.rollout.collector import CollectorCfg
    from rearrange.ver.run.metrics import METRICS_FILE, read_metrics
    from rearrange.ver.trainer import MakeAlgorithm, Trainer
    from rearrange.ver.trainer_cfg import TrainerCfg
    from rearrange.ver.workers.pool import PoolCfg
    from rearrange.workloads.straggler import StragglerFactory

    if cfg.policy not in PRESETS:
        raise UserError(f"policy must be one of {', '.join(PRESETS)}; got {cfg.policy!r}")
    if (run_dir / METRICS_FILE).exists():
        raise UserError(f"{run_dir} holds another run already: choose another keep_dir")
    make_algorithm: MakeAlgorithm = PPO
    collector, workers, batched = CollectorCfg(), PoolCfg(), BatchedCfg()
    if name == STRAGGLER:
        work = straggler_workload(cfg)
        make_env = StragglerFactory(work.straggler)
        make_envs: Any = partial(LockstepSleepers, DeferredSleepFactory(work.straggler))
        policy_factory = SleepPolicyFactory(work.inference_s)
        make_algorithm = SleepLearnerFactory(work.learning_s)
        collector = CollectorCfg(num_inference_workers=cfg.num_inference_workers)
        num_rollouts, preload, device = cfg.num_rollouts, "rearrange.workloads.straggler", "cpu"
    else:
        kwargs = {"camera_size": cfg.camera_size, "seed": cfg.seed}
        make_env = partial(make_gym, env_id=SKILL_TASKS[name], num_envs=cfg.num_envs, kwargs=kwargs)
        make_envs = partial(make_gym_vec, env_id=SKILL_TASKS[name], kwargs=kwargs)
        policy_factory = partial(build_policy, cfg=home_policy(cfg, name))
        collector = CollectorCfg(min_batch=min(cfg.min_batch, cfg.num_envs))
        workers = PoolCfg(envs_per_worker=cfg.envs_per_worker)
        batched = BatchedCfg(num_groups=cfg.num_groups) if mode == BATCHED else batched
        num_rollouts, preload, device = cfg.home_rollouts, "rearrange.tasks.env", cfg.device
    rollout_steps = cfg.num_envs * cfg.num_steps
    warmup = max(1, cfg.warmup_rollouts)  # the first one holds the start of the processes
    trainer_cfg = TrainerCfg(
        mode=mode, total_steps=(warmup + num_rollouts) * rollout_steps, num_envs=cfg.num_envs,
        num_steps=cfg.num_steps, seed=cfg.seed, device=device, checkpoint_interval_s=NEVER_S,
        collector=collector, workers=workers, batched=batched,
    )  # fmt: skip
    trainer = Trainer(
        make_env, policy_factory, trainer_cfg, run_dir,
        preload=(preload,), make_algorithm=make_algorithm, make_envs=make_envs, is_quiet=True,
    )  # fmt: skip
    if trainer.run()["stopped_by"] is not None:
        raise KeyboardInterrupt
    return measured_rates(read_metrics(run_dir / METRICS_FILE)[warmup - 1 :], rollout_steps)


def measured_rates(lines: list[dict[str, Any]], rollout_steps: int) -> dict[str, Any]:
    """Rates and shares of time between the first line of a log and its last."""
    ends, rest = [line["time_s"] for line in lines], lines[1:]
    rates: dict[str, Any] = rates_of(ends, rollout_steps)
    seconds = [b - a for a, b in zip(ends, ends[1:], strict=False)]
    rates["phases"] = {
        name: sum(line[f"phase/{name}"] * s for line, s in zip(rest, seconds, strict=True))
        / sum(seconds)
        for name in PHASES
    }
    for name in ("batch_size", "collect_s", "learn_s"):
        rates[name] = sum(line[f"speed/{name}"] for line in rest) / len(rest)
    return rates


def rates_of(update_ends_s: list[float], rollout_steps: int) -> dict[str, Any]:
    """Mean and maximum of the rate over the rollouts after the first end."""
    windows = [b - a for a, b in zip(update_ends_s, update_ends_s[1:], strict=False)]
    return {
        "mean": len(windows) * rollout_steps / (update_ends_s[-1] - update_ends_s[0]),
        "max": rollout_steps / min(windows),
        "windows_s": [round(window, 4) for window in windows],
    }


def combined(parts: list[dict[str, Any]], rollout_steps: int) -> dict[str, Any]:
    """One mode's or peer's repeats as one: rates over all their rollouts, means of all else."""
    failed = [part for part in parts if "error" in part]
    if failed or len(parts) == 1:
        return (failed or parts)[0]
    seconds = [window for part in parts for window in part["windows_s"]]
    rates = dict(parts[0]) | {
        "mean": len(seconds) * rollout_steps / sum(seconds),
        "max": rollout_steps / min(seconds),
        "windows_s": seconds,
        "means": [part["mean"] for part in parts],
    }
    for name in ("batch_size", "collect_s", "learn_s"):
        if name in rates:
            rates[name] = sum(part[name] for part in parts) / len(parts)
    if "phases" in rates:
        rates["phases"] = {
            name: sum(part["phases"][name] for part in parts) / len(parts) for name in PHASES
        }
    return rates


def home_policy(cfg: BenchTrainersCfg, task: str) -> Any:
    """The network's settings: the preset as skills are trained with it on this kind of machine."""
    from rearrange.skills.first_actions import STOP_LOG_STD, first_means
    from rearrange.skills.network.policy_cfg import PRESETS
    from rearrange.skills.network.precision import name_on

    policy = PRESETS[cfg.policy]
    precision = name_on(cfg.precision, pick_device(cfg.device).type)
    if cfg.precision == "auto" and cfg.policy != "small":
        precision = policy.precision
    means = first_means(task, "full")  # else a fresh policy's episodes end at once
    log_std = STOP_LOG_STD if means else policy.initial_log_std
    return replace(policy, precision=precision, initial_means=means, initial_log_std=log_std)


def measure_peer(cfg: BenchTrainersCfg, name: str) -> dict[str, Any]:
    """Rates of another trainer on the same task, with the same sizes."""
    from rearrange.skills.network.policy_cfg import PRESETS
    from rearrange.ver.update.ppo import PPOCfg

    policy, ppo, warmup = PRESETS[cfg.policy], PPOCfg(), max(1, cfg.warmup_rollouts)
    settings = peers.PeerCfg(
        env=SKILL_TASKS[PEER_TASK], camera_size=cfg.camera_size, num_envs=cfg.num_envs,
        num_steps=cfg.num_steps, num_rollouts=cfg.home_rollouts, warmup_rollouts=warmup,
        num_epochs=ppo.num_epochs, num_minibatches=ppo.num_minibatches,
        learning_rate=ppo.learning_rate, policy=cfg.policy, lstm_hidden=policy.lstm_hidden,
        lstm_layers=policy.lstm_layers, seed=cfg.seed, device=str(pick_device(cfg.device)),
    )  # fmt: skip
    python = peers.check_python(cfg.peers_python or sys.executable)
    answer = peers.run_peer(name, python, settings, PEER_TIMEOUT_S)
    rates = rates_of(answer.pop("update_ends_s")[warmup:], settings.rollout_steps)
    return rates | answer


def straggler_workload(cfg: BenchTrainersCfg) -> Workload:
    """R1, or the same with other numbers of environments and steps."""
    work = Workload(num_envs=cfg.num_envs, num_steps=cfg.num_steps)
    work.straggler.seed = cfg.seed
    return work


def add_calculated(rates: dict[str, Any], cfg: BenchTrainersCfg) -> None:
    """What each mode can reach in these very rollouts, and the ideal."""
    work, warmup = straggler_workload(cfg), max(1, cfg.warmup_rollouts)
    for mode in rates.keys() & set(bench_ideal.MODES):
        rates[mode]["reachable"] = bench_ideal.calculate(
            mode, work, cfg.num_rollouts, warmup, num_inference_workers=cfg.num_inference_workers
        )
    rates["ideal"] = {"mean": bench_ideal.ideal_rate(work)}


def criteria_of(workloads: dict[str, dict[str, Any]]) -> list[Threshold]:
    """The criteria that concern what was measured; a peer's only where it ran.

    Against async the bar is for one device that learns and infers: on sleeping environments, where
    learning takes nothing away from collecting, async hides all of it and is out of reach.
    """
    asked = [(STRAGGLER, "ver", "ddppo", 3.0), (STRAGGLER, "ver", "nover", 1.25)]
    asked += [(STRAGGLER, "ver", "ideal", 0.95), (STRAGGLER, "ver", BATCHED, 1.0)]
    asked += [(name, "ver", "async", 1.0) for name in workloads if name != STRAGGLER]
    asked += [(PEER_TASK, "ver", "sample_factory", 1.0), (PEER_TASK, "ver", "sb3", 2.0)]
    asked += [(PEER_TASK, BATCHED, "ver", 1.15), (PEER_TASK, COLLECTION, HOMES, 0.9)]
    criteria = []
    for name, mode, other, limit in asked:
        rates = workloads.get(name, {})
        if "mean" in rates.get(mode, {}) and "mean" in rates.get(other, {}):
            ratio = rates[mode]["mean"] / rates[other]["mean"]
            criteria.append(Threshold(f"{name}: {mode} / {other}", ratio, limit))
    return criteria


def table(results: dict[str, Any], criteria: list[Threshold]) -> str:
    """What the command prints."""
    lines = []
    for name, rates in results["workloads"].items():
        ver = rates.get("ver", {}).get("mean")
        shares = "".join(f"{phase + ' %':>9}" for phase in PHASES)
        reachable = "reachable" if name == STRAGGLER else ""
        lines.append(f"{name:<16}{'steps/s':>9}{'max':>9}{'ver /':>8}{shares}  {reachable}")
        for mode, figure in rates.items():
            lines.append(_row(mode, figure, ver))
        lines.append("")
    if criteria:
        lines.append(f"{'bar':<32}{'measured':>10}{'at least':>10}")
        for criterion in criteria:
            verdict = "met" if criterion.is_met else "MISSED"
            lines.append(
                f"{criterion.name:<32}{criterion.value:>10.3f}{criterion.limit:>10.2f}   {verdict}"
            )
    return "\n".join(lines).rstrip()


def _row(mode: str, figure: dict[str, Any], ver: float | None) -> str:
    if "error" in figure:
        return f"{mode:<16}{'failed':>9}"
    best = f"{figure['max']:.1f}" if "max" in figure else ""
    ratio = f"{ver / figure['mean']:.2f}" if ver else ""
    phases = figure.get("phases", {})
    shares = "".join(f"{100 * phases[p]:>9.1f}" if p in phases else 9 * " " for p in PHASES)
    reachable = f"{figure['reachable']:>11.1f}" if "reachable" in figure else ""
    return f"{mode:<16}{figure['mean']:>9.1f}{best:>9}{ratio:>8}{shares}{reachable}".rstrip()


def _tell(workload: str, name: str, figure: dict[str, Any]) -> None:
    what = figure["error"] if "error" in figure else f"{figure['mean']:.1f} steps/s"
    print(f"{workload} {name}: {what}", file=sys.stderr, flush=True)
