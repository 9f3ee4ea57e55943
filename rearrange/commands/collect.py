"""`rearrange collect`: demonstrations as a dataset; `rearrange collect verify` replays one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tqdm import tqdm

from rearrange.configs.collecting import CollectCfg, VerifyCfg
from rearrange.eval.demonstrations.collecting import collect
from rearrange.eval.demonstrations.formats import read_summary
from rearrange.eval.demonstrations.replay import ReplayedEpisode, replay
from rearrange.eval.missing_episodes import print_line
from rearrange.eval.runner import check_names, runner_cfg
from rearrange.system.files import user_path
from rearrange.tasks.rules.definition import TASKS


def run(cfg: CollectCfg | VerifyCfg) -> int:
    """Collects, or replays: 1 if the replay differs from the stored data."""
    return _verify(cfg) if isinstance(cfg, VerifyCfg) else _collect(cfg)


def _collect(cfg: CollectCfg) -> int:
    check_names(cfg.task.name, cfg.agent, cfg.split, cfg.homes)
    folder = output_folder(cfg)
    summary = collect(cfg, runner_cfg(cfg, title=cfg.task.title), folder, print_line)
    done, count = summary["num_successes"], summary["num_episodes"]
    words = ["rearrange", "collect", "verify", f"folder={folder}", *_module_of(cfg.task.name)]
    print(
        f"{count} episodes, {done} of them successes, {summary['num_steps']:,} steps: {folder}\n"
        f"play back: {shlex.join(words)}"
    )
    return 0


def _module_of(task: str) -> list[str]:
    """What names the module of a task of a user's own."""
    return [f"task={task}"] if ":" in task else []


def output_folder(cfg: CollectCfg) -> Path:
    """The data set's folder."""
    if cfg.output is not None:
        return user_path(cfg.output)
    name = f"{cfg.task.name}-{cfg.agent}-{cfg.split}-{cfg.format}-v0".replace(":", "-")
    return Path("outputs/demonstrations") / name


def _verify(cfg: VerifyCfg) -> int:
    if cfg.task is not None:
        TASKS.find(cfg.task)  # imports its module
    folder = user_path(cfg.folder)
    summary = read_summary(folder)
    different: list[ReplayedEpisode] = []
    count = steps = 0
    bar = tqdm(total=summary["num_steps"], unit=" steps", disable=None, file=sys.stderr)
    try:
        with bar:
            for played in replay(folder, bar.update):
                count, steps = count + 1, steps + played.steps
                if played.difference is not None:
                    different.append(played)
    finally:  # also of what came before an episode that is damaged
        for played in different:
            print(f"episode {played.number}: {played.difference}")
    same = count - len(different)
    print(f"{same} of {count} episodes came again bit for bit, {steps:,} steps: {folder}")
    return 1 if different else 0
