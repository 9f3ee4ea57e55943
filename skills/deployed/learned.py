"""Trained policies in use: observations in, actions out.

    TrainedPolicy   of any environment; its actions are arguments of that environment's `step`
    LearnedPolicy   a skill of the home within a chain; its actions are of the full action space

The memory and the previous action are kept here. The policy's previous action is the one that it
chose, before any clipping or masking, as in training.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from rearrange.checked_arguments import whole
from rearrange.errors import UserError
from rearrange.skills.deployed.own_way import OwnWay, is_made
from rearrange.skills.deployed.skill_files import SkillFile, find_skill
from rearrange.skills.deployed.trained_skills import find_skill_path, skill_path
from rearrange.skills.skill import BASE
from rearrange.system.checked_json import quoted
from rearrange.system.files import user_path
from rearrange.tasks.actions import ACTION_SIZE, action_slots
from rearrange.tasks.floor_way import FLOOR_WAY
from rearrange.tasks.gym_factory import make_gym, read_spaces
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.ver.workers.spaces import ArraySpec, write_observation

HOME_OPTIONS = {"split": "val", "seed": 0}
"""Default options of `make_env` for environments of the home."""
BENCHMARK_RULES = {"success_scale": 1.0, "force_scale": 1.0, "starts": "task", "homes": "hab"}
"""Of the benchmark's episodes, whatever a training varied: homes, starts, success, force limits."""


def load_skill(
    name: str | Path, folder: str | Path | None = None, *, is_sampling: bool = False
) -> TrainedPolicy:
    """A trained policy, ready to act.

    Args:
        name: of a skill, such as "pick"; or the path of a skill file or of a training run's folder.
        folder: where skills are looked for by name; None: those that come with the package.
        is_sampling: draw actions as in training instead of taking the most likely ones.

    Raises UserError if there is none, or the file is damaged.
    """
    for what, given in (("name", name), ("folder", "." if folder is None else folder)):
        if not isinstance(given, str | Path) or not str(given):
            raise UserError(f"the {what} of a skill must be a text or a path, got {quoted(given)}")
    path = user_path(name)
    is_name = os.sep not in str(name) and not path.suffix
    try:
        if is_name and folder is None and find_skill_path(str(name)) is None:
            is_name = not path.is_dir()  # else a run's folder, right here
        skill = find_skill(skill_path(str(name), folder) if is_name else path)
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise UserError(f"cannot read skill {quoted(str(name))}: {error.strerror}") from error
    return TrainedPolicy(skill, is_sampling)


class TrainedPolicy:
    """A policy with its memory.

    Args:
        is_sampling: draw actions as in training instead of taking the most likely ones.

    Attributes:
        env_id, env_kwargs: the environment that it was trained in.
        observation: names of the observations it uses.
        origin: how it was trained: steps, mode, seed and so on.
    """

    def __init__(self, skill: SkillFile, is_sampling: bool = False) -> None:
        self.env_id, self.env_kwargs = skill.env_id, dict(skill.env_kwargs)
        self.observation = tuple(skill.observation)
        self.origin = dict(skill.origin)
        self._specs, self._action = skill.observation, skill.action
        self._is_sampling = is_sampling
        self._policy = skill.build()
        self._space: gymnasium.Space | None = None
        self._is_home = skill.env_id in TASK_OF_ID
        delay = int(self.env_kwargs.get("observation_delay", 1))
        self._way = OwnWay(self.observation, delay) if is_made(self.observation) else None
        self.reset()

    def make_env(self, **options: Any) -> gymnasium.Env:
        """An environment like the one of its training, with `options` changed or added.

        Those of the home have split "val", seed 0, and the benchmark's homes, starts and success
        criterion unless `options` say otherwise. Raises UserError for options that the
        environment does not take.
        """
        kwargs = dict(self.env_kwargs)
        if self._way is not None:
            kwargs.pop("floor_way", None)
        if self._is_home:
            kwargs = HOME_OPTIONS | kwargs | BENCHMARK_RULES
        kwargs |= options
        return make_gym(0, self.env_id, 1, kwargs)

    def reset(self, seed: int = 0, explore: bool = False) -> None:
        """Clears the memory; call before each episode.

        Args:
            seed: of the sampled actions.
            explore: sample until the next reset in any case.
        """
        self._samples = self._is_sampling or explore
        self._state = torch.zeros(1, self._policy.state_size)
        self._prev_action = torch.zeros(1, self._action.size, dtype=_dtype(self._action.dtype))
        self._is_first = torch.ones(1, dtype=torch.bool)
        self._seed = whole("seed", seed, 0)
        self._num_steps = 0
        if self._way is not None:
            self._way.reset()

    def act(self, observation: Any) -> Any:
        """The next action, for the environment's `step`.

        Args:
            observation: the environment's, or a mapping with at least the observations it uses.
                Pictures may be larger by an integer factor.

        Raises UserError for what is none, and for numbers that are not finite.
        """
        return self._action.to_env(self._choose(self._arrays(self._completed(observation))))

    def _completed(self, observation: Any) -> Any:
        """The observation with what the policy makes of it itself."""
        if self._way is None or not isinstance(observation, Mapping) or FLOOR_WAY in observation:
            return observation
        if missing := [name for name in self._way.inputs if name not in observation]:
            raise UserError(f"observation '{missing[0]}' is missing")
        for name in self._way.inputs:
            fit_observation(name, observation[name], self._specs[name])  # raises for what is none
        return {**observation, FLOOR_WAY: self._way.read(observation, self._base_command())}

    def _base_command(self) -> tuple[float, float]:
        """The base action of the step before, [2]; 0 where the policy leaves the base alone."""
        slots = action_slots(
            TASK_OF_ID[self.env_id], str(self.env_kwargs.get("action_space", "full"))
        )
        full = np.zeros(ACTION_SIZE)
        full[list(slots)] = self._prev_action[0].numpy()
        ahead, turn = full[BASE].tolist()
        return ahead, turn

    def _arrays(self, observation: Any) -> dict[str, Any]:
        is_named = isinstance(observation, Mapping) and all(n in observation for n in self._specs)
        if is_named and (self._is_home or not self._has_choices(observation)):
            return {
                name: fit_observation(name, observation[name], spec)
                for name, spec in self._specs.items()
            }
        if self._space is None:
            self._space = read_spaces(self.env_id, self.env_kwargs)[0]
        arrays = {
            name: np.zeros((1, *spec.shape), spec.dtype) for name, spec in self._specs.items()
        }
        write_observation(self._space, observation, arrays, 0)
        return {
            name: fit_observation(name, array[0], self._specs[name])
            for name, array in arrays.items()
        }

    def _has_choices(self, observation: Mapping[str, Any]) -> bool:
        """Whether a part is as its environment gives it and not yet as the network takes it: a
        discrete choice, whose spec is one-hot, and the like."""

        def is_choice(value: Any, spec: ArraySpec) -> bool:
            with suppress(ValueError):  # lists of different lengths: `fit_observation` says so
                array = np.asarray(value)
                is_number = array.ndim == 0 or array.dtype.kind in "biu"
                return is_number and len(spec.shape) < 3 and array.shape != spec.shape
            return False

        return any(is_choice(observation[name], spec) for name, spec in self._specs.items())

    def _choose(self, arrays: Mapping[str, Any]) -> np.ndarray:
        """The policy's own action, [A], of the next step."""
        inputs = {
            name: torch.from_numpy(np.ascontiguousarray(array))[None]
            for name, array in arrays.items()
        }
        if self._samples:  # an episode does not depend on what else this process has run
            torch.manual_seed((self._seed * 100_003 + self._num_steps) % 2**64)
        with torch.inference_mode():
            step = self._policy.act(
                inputs, self._prev_action, self._is_first, self._state, not self._samples
            )
        self._prev_action, self._state = step.action, step.state
        self._is_first = torch.zeros(1, dtype=torch.bool)
        self._num_steps += 1
        return step.action[0].numpy()


class LearnedPolicy(TrainedPolicy):
    """One trained skill of the home. Raises UserError for any other file."""

    def __init__(self, skill: SkillFile, is_sampling: bool = False) -> None:
        if skill.env_id not in TASK_OF_ID:
            raise UserError(f"a skill of the home is needed, got one for {skill.env_id}")
        self.task = TASK_OF_ID[skill.env_id]
        self.camera_size = int(skill.env_kwargs.get("camera_size", 128))
        self.observation_delay = int(skill.env_kwargs.get("observation_delay", 1))
        self.motor_lead: float | None = skill.env_kwargs.get("motor_lead")
        self.action_space = str(skill.env_kwargs.get("action_space", "full"))
        self._slots = list(action_slots(self.task, self.action_space))
        super().__init__(skill, is_sampling)

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """The next action, [11] float32 in [-1, 1]; slots that the skill lacks are 0.

        Args:
            observation: at least those of its training.
        """
        observation = self._completed(observation)
        if missing := [name for name in self.observation if name not in observation]:
            raise UserError(f"observation '{missing[0]}' is missing")
        action = np.zeros(ACTION_SIZE, np.float32)
        action[self._slots] = super().act({name: observation[name] for name in self.observation})
        return action


def fit_observation(name: str, value: Any, spec: ArraySpec) -> np.ndarray:
    """An observation as the network takes it; vectors may be of any kind of number.

    Raises UserError for another shape or kind, and for numbers that are not finite.
    """
    try:
        array = np.asarray(fit_picture(value, spec.shape))
    except ValueError as error:  # lists of different lengths
        raise UserError(f"observation '{name}' must be an array: {error}") from error
    if array.shape != spec.shape:
        raise UserError(f"observation '{name}' must have shape {spec.shape}, got {array.shape}")
    is_vector = len(spec.shape) < 3 and spec.dtype.kind == "f"
    if array.dtype.kind not in ("fiub" if is_vector else spec.dtype.kind):
        raise UserError(f"observation '{name}' must be {spec.dtype} numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # an infinity is found right below
        array = array.astype(spec.dtype, copy=False)
    if spec.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(f"observation '{name}' must be finite numbers")
    return array


def fit_picture(value: Any, shape: tuple[int, ...]) -> Any:
    """A picture with fewer pixels: the mean of each block, like Habitat's resizing.

    Args:
        value: [k * H, k * W, C] float, for an integer k; anything else is returned unchanged.
        shape: (H, W, C).
    """
    picture = np.asarray(value)
    if picture.shape == shape or picture.ndim != 3 or len(shape) != 3 or picture.dtype.kind != "f":
        return value
    height, width, channels = shape
    factor = picture.shape[0] // height
    if factor < 2 or picture.shape != (factor * height, factor * width, channels):
        return value
    blocks = picture.reshape(height, factor, width, factor, channels)
    return blocks.mean(axis=(1, 3), dtype=picture.dtype)


def _dtype(dtype: np.dtype) -> torch.dtype:
    return torch.float32 if dtype == np.float32 else torch.int64
