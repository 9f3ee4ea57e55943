"""The process that steps environments: actions in, observations out, both through StepSlots.

    collector                              worker
    slots.action[e]; send e   -- pipe -->  env.step
                              <-- pipe --  slots.observation[e], reward, ...; announce e

An episode depends on its seed alone, seed = f(run's seed, environment, episode number): what a
restarted worker or a resumed run plays next is known, and an episode can be played again. Where
failed episodes are repeated the number is that of the episode which is given again. When an
episode ends the next one starts in the same answer. No torch here, and nothing newer than Python
3.9: `rearrange.ver.bridge` runs this file under another Python too, with numpy alone.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.system.processes import end_with_parent
from rearrange.system.stop_signals import TO_ALL
from rearrange.ver.workers import shared_memory as sm
from rearrange.ver.workers.restarts import is_left_out
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.spaces import write_observation
from rearrange.ver.workers.waiting import Waiting

REQUEST, ANSWER = struct.Struct("<H"), struct.Struct("<HH")  # env; generation, env

STAGGERED = "staggered"
RESETS = 3  # so many observations in a row that are not finite mean a broken environment

# The policy answers all environments at once: while it works, no environment takes its core. 16
# workers of niceness 10 together still have more weight than one process of 0; of 19 a quarter.
WORKER_NICENESS = 19

MakeEnv = Callable[[int], Any]  # of an index; the environment has the methods of gymnasium.Env


@dataclass(frozen=True)
class WorkerCfg:
    """What an environment has to know beside its slots; travels to the workers."""

    seed: int
    info_keys: tuple[str, ...]  # "success", "stages/picked": numbers in the last step's info
    start_mode: str  # "off", "clock", "advance" or "staggered"
    start_horizon: int  # steps over which the starts are spread; staggered: of every episode
    first_env: int = 0  # this rank's first one among the environments of all ranks
    repeat_failed: float = 0.0  # probability with which a failed episode is given once more
    failed_resets: Mapping[int, int] = field(default_factory=dict)  # seed -> how often
    age: int = 0  # steps an environment has taken in earlier processes, where it asks for that
    offsets: tuple[int, ...] = ()  # staggered: where in the horizon each of this rank begins
    is_cut: bool = False  # staggered: first episodes are cut short instead of begun by random steps
    awake_s: float = 0.0  # so long a worker waits awake for its next request


def episode_seed(seed: int, env: int, number: int) -> int:
    """The seed given to `env.reset` for an environment's episode, in [0, 2^31)."""
    return int(np.random.SeedSequence([seed, env, number]).generate_state(1)[0] >> 1)


def start_offset(cfg: WorkerCfg, env: int) -> int:
    """Steps by which an environment's first episode is cut short or advanced."""
    if cfg.start_mode == "off":
        return 0
    if cfg.start_mode == STAGGERED:
        return cfg.offsets[env - cfg.first_env]
    return int(np.random.default_rng([cfg.seed, env, 1]).integers(cfg.start_horizon))


def is_given_again(cfg: WorkerCfg, env: int, number: int) -> bool:
    """Whether an episode of that number, which failed, is repeated.

    Chance is drawn from its number: no state that a training which goes on would have to keep.
    """
    return bool(np.random.default_rng([cfg.seed, env, number, 3]).random() < cfg.repeat_failed)


class SlotEnvironment:
    """One environment and its row of the slots.

    Start modes spread the episodes' ends over time (staggered resets, see the paper of that name,
    section 4): `clock` cuts the first episode short by a random number of steps, `advance` first
    takes so many random steps. Neither is a whole episode of the policy's. `staggered` does one of
    both by a number that is not drawn, and ends all episodes after the horizon.

    Args:
        episode_number: the number of the next episode.
        is_fresh: apply the start mode; false after a restart and on resuming.

    Attributes:
        number: of the running episode.
        seed_number: of the episode whose seed it has; an earlier one if that is repeated.
        is_whole: the running episode is the policy's from start to end.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        index: int,
        slots: StepSlots,
        cfg: WorkerCfg,
        episode_number: int = 0,
        is_fresh: bool = True,
    ) -> None:
        self.index, self.slots, self.cfg = index, slots, cfg
        self._number_of_all = cfg.first_env + index
        self.env = make_env(self._number_of_all)
        self._set_age(cfg.age)
        self.number = self.seed_number = episode_number - 1
        self.is_whole = True
        self.actions: list[np.ndarray] = []  # of the running episode, to play it again
        self.total_return = 0.0
        self.clock: int | None = None  # steps left of a first episode cut short
        self._offset = start_offset(cfg, self._number_of_all) if is_fresh else 0

    def start(self) -> None:
        """Begins the next episode and writes its first observation."""
        observation = self._reset()
        if self._offset and (self.cfg.start_mode == "clock" or self.cfg.is_cut):
            self.clock = self.cfg.start_horizon - self._offset
            self.is_whole = False  # also if it ends earlier: only the short ones would count
        elif self._offset:
            observation = self._advance(observation)
            self.is_whole = not self.actions
        self._offset = 0
        self._write_start(observation)

    @property
    def age(self) -> int:
        """Steps so far, earlier processes included, of an environment that counts them; else 0."""
        return getattr(self.env, "age", 0)

    def replay(
        self, actions: list[np.ndarray], seed_number: int | None = None, age: int = 0
    ) -> None:
        """Begins the next episode and takes these actions: the state it was saved in.

        Args:
            seed_number: of the episode whose seed it has; None: its own.
            age: that it had then.
        """
        self._set_age(age - len(actions))
        observation = self._reset(seed_number)
        for action in actions:
            observation, reward, *_ = self.env.step(self.slots.layout.action.to_env(action))
            self.total_return += float(reward)
            self.actions.append(action)
        self._write_start(observation)

    def step(self) -> None:
        """Takes the action in the slots and writes what came of it."""
        begin = time.perf_counter()
        slots, e = self.slots, self.index
        action = slots.action[e].copy()
        self.actions.append(action)
        observation, reward, terminated, truncated, info = self.env.step(
            slots.layout.action.to_env(action)
        )
        reward = float(reward)
        if self.clock is not None:
            self.clock -= 1
            truncated = truncated or (self.clock <= 0 and not terminated)
        if self.cfg.start_mode == STAGGERED:
            truncated = truncated or len(self.actions) >= self.cfg.start_horizon
        self.total_return += reward
        slots.is_start[e] = 0
        slots.fault[e] = sm.FAULT_NONE
        slots.reward[e], slots.terminated[e] = reward, terminated
        slots.truncated[e] = truncated and not terminated
        target = slots.final if terminated or truncated else slots.observation
        self._write(observation, target)
        if (what := self._nonfinite(target)) is not None:
            place = self._place()
            self._write_start(self._reset(), f"{place}: {what}")
        elif terminated or truncated:
            slots.episode_return[e] = self.total_return
            slots.episode_length[e] = len(self.actions)
            slots.infos[e] = [_lookup(info, key) for key in self.cfg.info_keys]
            slots.is_whole[e] = self.is_whole
            first = self._reset(self.seed_number if self._is_given_again(info) else None)
            self._write(first, slots.observation)
            if self._nonfinite(slots.observation, with_reward=False) is not None:
                self._write_start(first)  # one answer cannot tell both: the episode is lost
        slots.episode_number[e] = self.number
        slots.step_seconds[e] = time.perf_counter() - begin

    def _set_age(self, age: int) -> None:
        if hasattr(self.env, "age"):
            setattr(self.env, "age", age)  # noqa: B010 - of our environments alone

    def _reset(self, seed_number: int | None = None):
        """Begins the next episode, with the seed of that number or, None, its own.

        One whose reset has failed before is left out. The slots tell what is being reset, for
        whoever finds that this process broke at it.
        """
        self.number += 1
        self.actions = []
        self.total_return, self.clock, self.is_whole = 0.0, None, True
        self.seed_number = self.number if seed_number is None else seed_number
        while seed_number is None and is_left_out(self.cfg.failed_resets, self._seed):
            self.number = self.seed_number = self.number + 1
        seed = self._seed
        self.slots.resetting[self.index] = seed + 1
        observation = self.env.reset(seed=seed)[0]
        self.slots.resetting[self.index] = 0
        return observation

    @property
    def _seed(self) -> int:
        return episode_seed(self.cfg.seed, self._number_of_all, self.seed_number)

    def _is_given_again(self, info: dict) -> bool:
        """Whether the episode that is over failed, and is repeated."""
        if not self.cfg.repeat_failed or not self.is_whole or _lookup(info, "success") != 0.0:
            return False
        return is_given_again(self.cfg, self._number_of_all, self.number)

    def _advance(self, observation):
        """Random steps, the same ones in every run; ends inside a running episode."""
        spec = self.slots.layout.action
        rng = np.random.default_rng([self.cfg.seed, self._number_of_all, 2])
        for _ in range(self._offset):
            action = rng.uniform(-1.0, 1.0, spec.size).astype(spec.dtype)
            if spec.kind == "discrete":
                action = rng.integers(spec.num_choices).astype(spec.dtype)
            observation, reward, terminated, truncated, _ = self.env.step(spec.to_env(action))
            self.total_return += float(reward)
            self.actions.append(action)
            if terminated or truncated:
                observation = self._reset()
        return observation

    def _write_start(self, observation, fault: str | None = None) -> None:
        """Writes an episode's first observation, and what was not finite before it."""
        slots, e = self.slots, self.index
        for _ in range(RESETS):
            self._write(observation, slots.observation)
            what = self._nonfinite(slots.observation, with_reward=False)
            if what is None:
                break
            fault = fault or f"{self._place()}: {what}"
            observation = self._reset()
        else:
            raise RuntimeError(f"{fault}; {RESETS} resets in a row did not help")
        slots.is_start[e], slots.fault[e] = 1, sm.FAULT_NONE
        if fault is not None:
            slots.set_message(e, fault)
            slots.fault[e] = sm.FAULT_NONFINITE
        slots.terminated[e] = slots.truncated[e] = 0
        slots.reward[e] = slots.step_seconds[e] = 0.0
        slots.episode_number[e] = self.number

    def _write(self, observation, arrays: dict[str, np.ndarray]) -> None:
        """Into this environment's row. Raises UserError, saying whose it is, for a wrong one."""
        try:
            write_observation(self.env.observation_space, observation, arrays, self.index)
        except UserError as error:
            spec = self.env.spec
            name = spec.id if spec is not None else type(self.env.unwrapped).__name__
            raise UserError(f"env {name}: {error} ({self._place()})") from error

    def _nonfinite(self, arrays: dict[str, np.ndarray], with_reward: bool = True) -> str | None:
        """What is not a finite number, in words."""
        if with_reward and not np.isfinite(self.slots.reward[self.index]):
            return f"reward {self.slots.reward[self.index]}"
        for name, array in arrays.items():
            row = array[self.index]
            # A sum is finite only if all are, and is much cheaper than a test of each.
            if row.dtype.kind == "f" and not np.isfinite(row.sum(dtype=np.float64)):
                return f"observation '{name}' with a value that is not finite"
        return None

    def _place(self) -> str:
        return f"environment {self.index}, episode {self.number}, step {len(self.actions)}"


def _lookup(info: dict, path: str) -> float:
    """A number in the info, NaN if it is not there; "is_success" also answers for "success"."""
    value: Any = info
    for key in path.split("/"):
        if not isinstance(value, dict) or key not in value:
            return (
                float(info["is_success"]) if path == "success" and "is_success" in info else np.nan
            )
        value = value[key]
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def run_environment_worker(
    make_env: MakeEnv,
    envs: list[tuple[int, int, bool]],  # index, number of its next episode, is fresh
    layout: SlotLayout,
    memory,
    cfg: WorkerCfg,
    requests,  # Connection, read end of this worker's pipe
    answers,  # Connection, write end of the pipe that all workers share
    generation: int,
    server: int | None = None,  # process id of who forks us, if it is known
) -> None:
    """The whole life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends the workers
    for signum in TO_ALL:
        signal.signal(signum, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TO_ALL)
    if not end_with_parent(server):
        return  # who started us starts another in our place
    _let_server_go()
    os.nice(WORKER_NICENESS)
    slots = StepSlots(layout, memory)
    current = envs[0][0]
    try:
        environments: dict[int, SlotEnvironment] = {}
        for current, number, is_fresh in envs:
            environments[current] = SlotEnvironment(make_env, current, slots, cfg, number, is_fresh)
            environments[current].start()
        for index in environments:  # now that all can answer in time
            _announce(answers, generation, index)
        poll = select.poll()
        poll.register(requests.fileno(), select.POLLIN)
        waiting = Waiting(poll, cfg.awake_s)
        while data := _next_requests(requests, waiting):
            for (current,) in REQUEST.iter_unpack(data):
                environments[current].step()
                _announce(answers, generation, current)
        for environment in environments.values():
            environment.env.close()
    except _ParentGone:
        pass
    except (Exception, SystemExit) as error:
        is_mistake = isinstance(error, UserError)
        slots.set_message(current, str(error) if is_mistake else traceback.format_exc())
        slots.fault[current] = sm.FAULT_USER if is_mistake else sm.FAULT_EXCEPTION
        with suppress(_ParentGone):
            _announce(answers, generation, current)
        sys.exit(1)


def _next_requests(requests, waiting: Waiting) -> bytes:
    """As much of the pipe as there is; nothing once the other end is closed."""
    waiting.stay_awake()
    return os.read(requests.fileno(), 4096)


class _ParentGone(Exception):
    """Nobody reads our answers any more."""


def _announce(answers, generation: int, env: int) -> None:
    try:
        os.write(answers.fileno(), ANSWER.pack(generation, env))
    except OSError as error:
        raise _ParentGone from error


def _let_server_go() -> None:
    """Closes this process's end of the pipe by which the fork server sees that it is not needed.

    Every child gets one. A child that hangs would keep the server, and so itself, alive after the
    training was killed.
    """
    server = forkserver._forkserver  # not public; without it that case leaves two processes
    descriptor = getattr(server, "_forkserver_alive_fd", None)
    if descriptor is not None:
        setattr(server, "_forkserver_alive_fd", None)  # noqa: B010
        os.close(descriptor)
