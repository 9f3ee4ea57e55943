"""N homes in one process, stepped by threads: `make_vec(..., "vector_entry_point")`.

    actions [N, A] --> home i begins a step --> its physics, by any thread --> reward, sensors
                   --> its picture, by any thread --> row i of one array per sensor, infos

Each home is a `RearrangeEnv`, so rules, rewards, sensors and resets equal those of a single one,
bit for bit, with any number of threads. Each has its own world (2 MB), because layouts are written
into MuJoCo's model. MuJoCo's `rollout` module cannot be used: between two substeps our world steers
the base, measures forces and limits joint speeds.

All of Python runs in the caller's thread, resets too: with several they took longer. An episode
takes ten times as long to draw as its world takes to reset, and thirty times as long as a step. In
each step the next episodes of a few homes are drawn ahead, so that a step in which many homes end
does not take a second.

With delayed observations each sensor alternates between two arrays: one is returned, the other gets
the current values.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import NoAsyncCallError
from gymnasium.vector import AutoresetMode

from rearrange.checked_arguments import (
    check_choice,
    check_flag,
    checked_reset_options,
    reset_mask,
    seed_each,
    whole,
)
from rearrange.system.machine import num_cores
from rearrange.tasks.actions import Command
from rearrange.tasks.cameras import COLOUR_SENSORS
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.env_options import RESET_OPTIONS
from rearrange.tasks.vector.begun_step import (
    BegunStep,
    HalvedVectorEnv,
    PictureCopies,
    clipped_actions,
)
from rearrange.tasks.vector.helper_threads import HelperThreads
from rearrange.tasks.vector.infos import batched
from rearrange.tasks.vector.job_board import JobBoard
from rearrange.tasks.vector.rows import Row, copy_row, rows_of

HOMES_AHEAD = 32  # of so many homes one has its next episode drawn in each step
PICTURE = "head_depth"  # the sensor that jobs draw and copy

Stepped = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


class HomeVectorEnv(HalvedVectorEnv):
    """N homes of one task. As Gymnasium's `SyncVectorEnv` of single ones, with threads.

    With autoreset disabled, a home that has ended does not move, with reward 0, until
    `reset(options={"reset_mask": mask})`.

    Args:
        task: its name, or `package.module:Name`, which imports the module.
        seed: of the stream of home 0; home i has seed + i, as after `reset(seed=seed)`.
        threads: number that step homes, including the caller's; 0: one per core.
        copy: return copies of observations; false: the next step or reset overwrites them.
        autoreset_mode: Gymnasium's: NextStep, SameStep or Disabled.
        options: those of `rearrange.tasks.env.RearrangeEnv`, the same for all homes.

    Raises UserError for an unknown value or one out of range.
    """

    keeps_observations = True
    """What a step or reset returns is not written to before the next one, or `set_state`."""
    finite_observations = (PICTURE,)
    """Sensors whose numbers are finite in any state of the world."""

    def __init__(
        self,
        num_envs: int = 1,
        task: str = "pick",
        *,
        seed: int | None = None,
        threads: int = 0,
        copy: bool = True,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **options: Any,
    ) -> None:
        num_envs, threads = whole("num_envs", num_envs, 1), whole("threads", threads, 0)
        seed = None if seed is None else whole("seed", seed, 0)
        check_flag("copy", copy)
        modes = [mode.value for mode in AutoresetMode]
        if not isinstance(autoreset_mode, AutoresetMode):
            check_choice("autoreset_mode", autoreset_mode, modes)
        seeds = [None if seed is None else seed + i for i in range(num_envs)]
        make = partial(RearrangeEnv, task, **options)
        makers: list[Callable[[], gymnasium.Env]] = [partial(make, seed=one) for one in seeds]
        super().__init__(makers, copy=copy, autoreset_mode=autoreset_mode)
        self.homes: list[RearrangeEnv] = [env for env in self.envs if isinstance(env, RearrangeEnv)]
        self._is_delayed = self.homes[0].observation_delay == 1
        space = self.homes[0].observation_space
        assert isinstance(space, gymnasium.spaces.Dict)
        self._sensors: list[dict[str, np.ndarray]] = [
            {
                name: np.zeros((num_envs, *(box.shape or ())), box.dtype)
                for name, box in space.items()
            }
            for _ in range(2)
        ]
        self._rows = [rows_of(arrays, self.num_envs) for arrays in self._sensors]
        self._now = 0  # which of the two is returned
        self._infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        self._finals: dict[int, tuple[Row, dict[str, Any]]] = {}
        self._to_draw: dict[int, None] = {}  # homes, the longest waiting first
        self._expected: dict[int, int] = {}  # home -> seed of its next reset, if it is known
        self._draws_a_step = -(-num_envs // HOMES_AHEAD)
        self._is_kept = np.zeros(num_envs, bool)  # an ended home has its own copy of what it saw
        self._has_begun = False  # all of them
        num_threads = min(threads or num_cores(), num_envs)
        self._helpers = HelperThreads(num_threads - 1)
        self._has_colours = any(name in space.spaces for name in COLOUR_SENSORS)
        self._uncoloured: list[int] = []  # homes that have moved, and whose colours are to be drawn
        self._painters = ThreadPoolExecutor(num_threads, "painter")

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begins an episode in every home, or in those of options["reset_mask"], [N] bool.

        Home i gets the seed + i. Other options are those of a single home, for each.
        """
        self._check_idle("reset")
        options = dict(checked_reset_options(options, (*RESET_OPTIONS, "reset_mask")))
        mask = reset_mask(options, self.num_envs)
        options.pop("reset_mask", None)
        seeds = seed_each(seed, self.num_envs)
        chosen = np.flatnonzero(mask).tolist()

        errors: dict[int, Exception] = {}
        for home in chosen:  # all of them, whatever one does
            try:
                self._begin(home, seeds[home], options)
            except Exception as error:
                errors[home] = error
        for flags in (self._terminations, self._truncations, self._autoreset_envs):
            flags[[home for home in chosen if home not in errors]] = False
        if errors:
            raise errors[min(errors)]
        infos: dict[str, Any] = {}
        for home in chosen:
            self._add_info(infos, self._infos[home], home)
        shown = self._shown()
        return {name: array.copy() for name, array in shown.items()} if self.copy else shown, infos

    def expect(self, seeds: dict[int, int]) -> None:
        """Announces the seeds of the next resets: those episodes are drawn ahead."""
        self._expected |= seeds

    def set_state(self, home: int, state: dict[str, Any]) -> None:
        """Returns a home to a state that `homes[i].get_state()` of an equal one gave.

        It moves with the next step, also if its episode has ended. Raises as the home's own
        `set_state`, which knows nothing of what this vector returns.
        """
        self._check_idle("set_state")
        i = whole("home", home, 0, self.num_envs - 1)
        self.homes[i].set_state(state)
        for rows in self._rows:
            copy_row(self.homes[i].current_observation, rows[i])
        for flags in (self._terminations, self._truncations, self._autoreset_envs):
            flags[i] = False
        self._is_kept[i] = False

    def step(self, actions: np.ndarray) -> Stepped:
        """One control step of all homes.

        Raises UserError for actions of a wrong shape or that are not finite, and RuntimeError
        before the first reset of all homes: none has moved then. Raises RuntimeError for a world
        that is no longer finite, after the other homes have done their step.
        """
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Begins a step: helpers move homes while the caller does something else.

        What the last step or reset returned is not written to before `step_wait`. Raises as `step`
        does, and AlreadyPendingCallError if a step is under way.
        """
        self._check_idle("step_async")
        checked = self._checked(actions)
        begun = BegunStep(self, JobBoard(2 * self.num_envs))
        try:
            self._helpers.call(begun.board.help_out)
            self._begin_step(begun, checked)
        except BaseException:
            begun.close()
            raise
        self._begun = begun

    def step_wait(self) -> Stepped:
        """The rest of the step that `step_async` began; returns and raises as `step` does.

        Raises NoAsyncCallError if none is under way.
        """
        begun, copies, to_copy = self._begun, {}, PictureCopies()
        if begun is None:
            raise NoAsyncCallError("step_wait needs a step that step_async began", "step")
        try:
            self._finals.clear()
            self._uncoloured.clear()
            self._now ^= 1
            shown = self._shown()
            if self.copy and PICTURE in shown:
                copies[PICTURE] = np.empty_like(shown[PICTURE])
                to_copy = PictureCopies.between(shown[PICTURE], copies[PICTURE])
            self._end_step(begun, to_copy)
            self._autoreset_envs = self._terminations | self._truncations
            infos = self._all_infos()  # while the last pictures are drawn
            begun.board.finish_all()
        finally:
            begun.close()
            self._begun = None
        errors = begun.errors
        self._colour(errors)
        if self.copy:
            copies = {
                name: copies[name] if name in copies else array.copy()
                for name, array in shown.items()
            }
        if errors:
            raise errors[min(errors)]
        flags = self._terminations.copy(), self._truncations.copy()
        return copies or shown, self._rewards.copy(), *flags, infos

    def _checked(self, actions: Any) -> list[list[float]]:
        """The actions, [N][A], clipped; homes that do not move may have any numbers."""
        if not self._has_begun:
            self._has_begun = all(home.episode is not None for home in self.homes)
            if not self._has_begun:
                raise RuntimeError("reset must be called before step")
        shape = self.action_space.shape
        assert shape is not None
        return clipped_actions(actions, shape, self._waiting)

    def __copy__(self) -> HomeVectorEnv:
        return deepcopy(self)  # a home cannot be in two

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles are independent environments in the same state."""
        self._check_idle("a copy")
        own = ("_rows", "_painters")
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._rows = [rows_of(arrays, self.num_envs) for arrays in self._sensors]
        self._painters = ThreadPoolExecutor(1 + len(self._helpers), "painter")

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and closes the homes. May be called again."""
        if self._begun is not None:
            self._begun.close()
            self._begun = None
        self._helpers.close()
        self._painters.shutdown()
        super().close_extras(**kwargs)

    # --- a step --------------------------------------------------------------------------------

    @property
    def _waiting(self) -> np.ndarray:
        """Homes whose episode has ended and that do not move in this step, [N] bool."""
        return self._autoreset_envs & (self.autoreset_mode != AutoresetMode.SAME_STEP)

    def _begin_step(self, begun: BegunStep, actions: list[list[float]]) -> None:
        """Posts the physics of the homes that move."""
        board = begun.board
        for i in np.flatnonzero(~self._waiting).tolist():
            try:
                command = self.homes[i].actions.command(actions[i])
                begun.moving[i] = command, board.post(world=self.homes[i].begin_advance(command))
            except Exception as error:
                begun.errors[i] = error
            if len(begun.moving) == 1 + len(self._helpers):
                board.finish(0)  # now is their turn at the interpreter's lock: they begin

    def _end_step(self, begun: BegunStep, to_copy: PictureCopies) -> None:
        """The rest of Python: it posts what takes time. Some pictures may be left to draw.

        Errors of homes do not keep the others from their step.
        """
        board, errors = begun.board, begun.errors
        drawn_ahead = list(self._to_draw)[: self._draws_a_step]
        for i in np.flatnonzero(self._waiting).tolist():
            try:
                self._wait(i)
            except Exception as error:
                errors[i] = error
        for i in drawn_ahead:
            self._draw_ahead(i, errors)
        for i in range(self.num_envs):
            pictures: list[int] = []
            if i in begun.moving:
                command, job = begun.moving[i]
                board.finish(job)
                try:
                    self._end_home(i, command, pictures)
                except Exception as error:
                    errors[i] = error
                    for rows in self._rows:  # what a single home goes on with
                        copy_row(self.homes[i].current_observation, rows[i])
            if pictures or to_copy.size:
                source, target, size = to_copy.of(i)
                board.post(0, pictures[0] if pictures else 0, source, target, size)

    def _wait(self, i: int) -> None:
        """What a home whose episode has ended does with this step instead of moving."""
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            self._begin(i)
            self._terminations[i] = self._truncations[i] = False
        else:
            if self._is_delayed and not self._is_kept[i]:  # its last row is written to now
                self.homes[i].keep_observation()
                self._is_kept[i] = True
            copy_row(self._rows[self._now ^ 1][i], self._rows[self._now][i])
        self._rewards[i] = 0.0

    def _end_home(self, i: int, command: Command, pictures: list[int]) -> None:
        """Reward, flags and sensors of a home that has moved."""
        home, (shown, seen) = self.homes[i], self._rows_in_turn(i)
        self._rewards[i], terminated, truncated, info = home.end_advance(command)
        self._terminations[i], self._truncations[i], self._infos[i] = terminated, truncated, info
        if self.autoreset_mode != AutoresetMode.SAME_STEP or not (terminated or truncated):
            home.observe(seen, pictures)
            if self._has_colours:
                self._uncoloured.append(i)
            return
        home.observe(seen)  # its picture is copied now
        self._finals[i] = {name: row.copy() for name, row in shown.items()}, info
        self._begin(i)

    def _colour(self, errors: dict[int, Exception]) -> None:
        """Colour images of the homes that have moved: by several threads, as that is slow."""

        def colour(i: int) -> None:
            try:
                self.homes[i].colour(self._rows_in_turn(i)[1])
            except Exception as error:
                errors[i] = error

        if self._uncoloured:
            list(self._painters.map(colour, self._uncoloured))

    def _begin(
        self, i: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """A new episode; its first observation is returned now and, delayed, once more."""
        shown, seen = self._rows_in_turn(i)
        self._is_kept[i] = False
        self._infos[i] = self.homes[i].begin(seed=seed, options=options)
        self.homes[i].observe(seen)
        if seen is not shown:
            copy_row(seen, shown)
        self._to_draw[i] = None

    def _rows_in_turn(self, i: int) -> tuple[Row, Row]:
        """A home's rows of the returned arrays, and of those for the current values."""
        shown = self._rows[self._now][i]
        return shown, self._rows[self._now ^ 1][i] if self._is_delayed else shown

    # --- all of them ---------------------------------------------------------------------------

    def _draw_ahead(self, i: int, errors: dict[int, Exception]) -> None:
        """Draws the next episode of a home, which moves also if that fails."""
        del self._to_draw[i]
        try:
            self.homes[i].prepare(self._expected.pop(i, None))
        except Exception as error:
            errors[i] = error

    def _all_infos(self) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for i in sorted(self._finals):
            observation, info = self._finals[i]
            self._add_info(infos, {"final_obs": observation, "final_info": info}, i)
        return infos | batched(self._infos, self._add_info)

    def _shown(self) -> dict[str, np.ndarray]:
        return self._sensors[self._now]
