"""Estimates the time and memory of a skill's training before it starts.

pick in 3 stages, total_steps is of the last:
  1 imitation  imitation, blind     401,408 steps  0.2 h
  2 blind      ver, blind           500,000 steps  0.1 h
  3 ver        ver, camera          100,000 steps  0.1 h
expected: 0.4 hours, at the steps a second of a 2-core x86-64 (this machine: 2 cores)
memory: some 2.1 GiB of 17.9 GiB that are free
quicker here: ...
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rearrange.commands.training.recipes import recipes_of
from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.speeds import (
    method_of,
    own_rate,
    sight_of,
    speed_table,
    sum_if_known,
    usual_rate,
)
from rearrange.commands.training.training_env import (
    newest_metrics,
    saved_steps,
    training_env_of,
    working_seconds,
)
from rearrange.configs.training import TrainSkillCfg
from rearrange.system.machine import (
    PROGRAM_BYTES,
    WORKER_BYTES,
    free_memory,
    num_cores,
    pick_device,
)
from rearrange.tasks.gym_factory import read_spaces

GIB = 2**30
LONG_H = 2.0  # a training that takes longer is told of a way that takes less
BYTES = 4  # of a number in a rollout
HABITAT_BYTES = 560 * 2**20  # of a process with one of habitat-lab's environments, as measured
ARRAYS = 80  # bytes of a step's numbers beside the tensors, see `ver/rollout/rows.py`
STEP_PICTURE_BYTES = 40  # while learning, for each pixel of each step of a minibatch


@dataclass(frozen=True)
class TrainingStage:
    """One training of a skill's way."""

    name: str
    settings: TrainSkillCfg

    @cached_property
    def _done(self) -> tuple[int, float]:
        """Steps, and seconds that they took, when it was first asked."""
        folder = self.settings.folder
        return newest_metrics(folder).get("step", 0), working_seconds(folder)

    @cached_property
    def _saved(self) -> int:
        """Steps that it goes on from: what a killed training did since then is done again."""
        return saved_steps(self.settings.folder)

    @property
    def steps_left(self) -> int:
        return max(0, self.settings.total_steps - self._saved)

    @property
    def rate(self) -> float | None:
        """Steps a second: the run's own if it has trained before, else as measured elsewhere."""
        if (own := own_rate(*self._done)) is not None:
            return own
        is_cpu = pick_device(self.settings.device).type == "cpu"
        return usual_rate(self.settings) if is_cpu else None

    @property
    def hours(self) -> float | None:
        """Until its end; None if nobody knows."""
        if not self.steps_left:
            return 0.0
        return self.steps_left / self.rate / 3600.0 if self.rate else None


def forecast(stages: Sequence[TrainingStage]) -> str:
    """Stages, hours and memory in lines for people, and a quicker way if there is one."""
    skill = stages[-1].settings.skill.name
    if len(stages) == 1:
        lines = [f"{skill}: {_about(stages[0])}"]
    else:
        width = max(len(stage.name) for stage in stages)
        lines = [f"{skill} in {len(stages)} stages, total_steps is of the last:"]
        lines += [
            f"  {number} {stage.name:<{width}}  {_about(stage)}"
            for number, stage in enumerate(stages, start=1)
        ]
    hours = total_hours(stages)
    if hours is None:
        is_ours = stages[-1].settings.backend == "mujoco"
        what = "this network" if is_ours else "this network with Habitat"
        lines.append(f"expected: nobody has measured {what} on this device")
    else:
        lines.append(
            f"expected: {_long(hours)}, by steps a second of this run or else of a "
            f"{speed_table()['machine']} (here: {num_cores()} cores)"
        )
    lines.append(memory_line([stage.settings for stage in stages]))
    if (advice := quicker_way(stages)) is not None:
        lines.append(f"quicker here: {advice}")
    return "\n".join(lines)


def memory_line(trainings: Sequence[TrainSkillCfg], jobs: int = 1) -> str:
    """What the largest of them needs, so many at a time, beside what is free."""
    needed, free = jobs * max(map(memory_of, trainings)), free_memory()
    if free is None:
        return f"memory: some {needed / GIB:.1f} GiB"
    line = f"memory: some {needed / GIB:.1f} GiB of {free / GIB:.1f} GiB that are free"
    if needed > free:
        line += ": too little; use a smaller num_envs, num_steps or imitation.memory_rollouts"
    return line


def total_hours(stages: Sequence[TrainingStage]) -> float | None:
    """Of all; None if nobody knows it of one of them."""
    return sum_if_known([stage.hours for stage in stages])


def quicker_way(stages: Sequence[TrainingStage]) -> str | None:
    """The preset for laptops where VER from nothing, or a network for a GPU, is asked of a CPU."""
    settings = stages[-1].settings
    is_fresh = settings.warm_start is None and settings.method == "ver"
    is_ours = settings.backend == "mujoco"
    if len(stages) > 1 or not (is_fresh and is_ours) or pick_device(settings.device).type != "cpu":
        return None
    hours, other = total_hours(stages), laptop_hours(settings.skill.name)
    if other is None or (hours is not None and hours < max(LONG_H, other)):
        return None
    than = "" if hours is None else f" instead of {_long(hours)}"
    return (
        f"`rearrange train-skills skills={settings.skill.name}`, a teacher first and VER in the "
        f"end: {_long(other)}{than}"
    )


def laptop_hours(skill: str) -> float | None:
    """Of all stages of the preset for two cores; None if nobody knows."""
    names = [
        stage.name for stage in recipes_of(skill).stages["laptop"] if stage.method != "average"
    ]
    found = []
    for name in names:
        settings = load_training("train-skill", [skill, f"stage={name}", "preset=laptop"])
        if (rate := usual_rate(settings)) is None:
            return None
        found.append(settings.total_steps / rate / 3600.0)
    return sum(found) if found else None


def memory_of(settings: TrainSkillCfg) -> float:
    """Bytes: the program, its workers, rollouts, what is remembered, and learning from pictures."""
    training_env = training_env_of(settings)
    observation, action = read_spaces(training_env.env_id, training_env.kwargs)
    shapes = [space.shape or () for space in observation.values()]  # pyrefly: ignore[missing-attribute]
    num_actions = int(np.prod(action.shape or (1,)))
    policy = settings.policy
    state = 2 * policy.lstm_layers * policy.lstm_hidden * (1 + policy.separate_critic)
    numbers = sum(math.prod(shape) for shape in shapes) + 4 * num_actions + state
    step = BYTES * numbers + ARRAYS
    rollout = settings.steps_per_rollout
    count = settings.num_storages
    if settings.method == "imitation":
        count += min(settings.imitation.memory_rollouts, settings.total_steps // rollout)
    pixels = sum(math.prod(shape) for shape in shapes if len(shape) == 3)
    learning = STEP_PICTURE_BYTES * pixels * rollout / settings.ppo.num_minibatches
    pool = settings.workers.sized(settings.num_envs, num_cores())
    is_here = settings.serial or settings.mode == "batched"
    workers = 0 if is_here else settings.num_envs / pool.envs_per_worker
    worker = WORKER_BYTES if settings.backend == "mujoco" else HABITAT_BYTES
    return PROGRAM_BYTES + workers * worker + count * rollout * step + learning


def _about(stage: TrainingStage) -> str:
    settings = stage.settings
    parts = [f"{method_of(settings)}, {sight_of(settings)}, network {settings.policy.name}"]
    done = settings.total_steps - stage.steps_left
    parts.append(f"{settings.total_steps:,} steps" + (f", {done:,} done" if done > 0 else ""))
    if stage.hours is not None:
        parts.append(_long(stage.hours) + (f" at {stage.rate:.0f} a second" if stage.rate else ""))
    return ", ".join(parts)


def _long(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1.0 else f"{math.ceil(60 * hours)} minutes"
