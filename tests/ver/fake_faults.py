"""Pools whose environments break as they are told to, on a clock of their own; see `fake_ranks`.

    die     the worker of an environment is gone, with all that it steps, and is replaced
    hang    its step never ends, until it is replaced
    slow    its next step takes long
    nan     its next reward is not finite     nan_reset   its next episode's first observation
    stop    the rank is asked to stop         kill        the rank is gone without a word

What the environments did is written down: that is what the account is checked against.
"""

import heapq
import signal
from dataclasses import dataclass

import numpy as np
from fake_env import FakeEnv

from rearrange.ver.workers.environment_worker import SlotEnvironment
from rearrange.ver.workers.pool import Fault, SerialPool, TooManyRestarts
from rearrange.ver.workers.shared_memory import StepSlots

BREAKING = ("die", "die", "hang", "slow", "nan", "nan_reset")
ENDING = ("stop", "kill")
STEP_TIMEOUT_S, SLOW_S, RESTART_S = 2.0, 1.0, 0.3
MAX_RECEIVES = 50_000  # in one training: it does not come forward


class Killed(BaseException):
    """The rank's process is gone."""


@dataclass
class Event:
    kind: str
    rank: int
    env: int
    after: int  # answers of the rank's environments


class Diary:
    """What the environments of a training did, over all ranks.

    Attributes:
        announced: {(env, seed): steps whose answers were given to the collector}.
        faulty: (env, seed) of the episodes that broke.
        happened: kinds of the events that took place.
    """

    def __init__(self):
        self.announced, self.faulty, self.happened = {}, set(), set()


class BreakableEnv(FakeEnv):
    """Gives a number that is not finite when it is told to."""

    breaks_step, breaks_reset = False, None

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if self.breaks_reset is not None:
            self.breaks_reset.add((self.index, seed))
            self.breaks_reset, observation[3] = None, np.nan
        return observation, info

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self.breaks_step:
            self.breaks_step, reward = False, np.nan
        return observation, reward, *rest


class _Script:
    """Lets events happen in a pool, which has `environments`, `num_answers` and `first_env`."""

    def prepare(self, rank, world, diary, events, trainer):
        self.rank, self.world, self.diary, self.trainer = rank, world, diary, trainer
        self.events = sorted(
            (e for e in events if e.rank % world.size == rank), key=lambda e: e.after
        )
        self.num_answers = self._num_receives = 0

    def _let_happen(self):
        self._num_receives += 1
        assert self._num_receives < MAX_RECEIVES, "the training does not come forward"
        while self.events and self.events[0].after <= self.num_answers:
            event = self.events.pop(0)
            e = event.env % self.num_envs
            if event.kind in ("die", "hang", "slow") and not isinstance(self, BreakablePool):
                continue
            self.diary.happened.add(event.kind)
            if event.kind == "stop":
                self.trainer.request_stop(signal.SIGTERM)
            elif event.kind == "kill":
                self.trainer.is_killed = True
                raise Killed
            elif event.kind == "nan":
                self.environments[e].env.breaks_step = True
            elif event.kind == "nan_reset":
                self.environments[e].env.breaks_reset = self.diary.faulty
            else:
                self._break(event.kind, e)

    def _announce(self, e):
        self.num_answers += 1
        env = self.environments[e].env
        key = env.index, env.seed
        if self.slots.fault[e]:
            self.diary.faulty.add(self._running[e])
        elif not self.slots.is_start[e]:
            # the answer is of the episode that was under way when the action was sent
            count = self.diary.announced.get(self._running[e], 0)
            self.diary.announced[self._running[e]] = count + 1
        self._running[e] = key


class BreakableSerialPool(_Script, SerialPool):
    """Serial mode's; each look takes a moment."""

    def start(self):
        super().start()
        self._note()

    def restore(self, *args):
        super().restore(*args)
        self._note()

    def _note(self):
        self._running = {e: (s.env.index, s.env.seed) for e, s in enumerate(self.environments)}

    def receive(self, timeout_s):
        self.world.advance(self.rank, self.world.times[self.rank] + 0.01)
        self._let_happen()
        ready = super().receive(timeout_s)
        for e in ready:
            self._announce(e)
        return ready


class BreakablePool(_Script):
    """Takes the place of WorkerPool.

    Args: those of WorkerPool; and `step_s`, seconds of a step of each environment.
    """

    keeps_until_receive = False

    def __init__(self, make_env, layout, cfg, episode_numbers, is_fresh, pool_cfg, preload, step_s):
        self.num_envs = self.round_size = layout.num_envs
        self.restarts, self.slots = 0, StepSlots.allocate(layout)
        self._make, self._cfg, self._pool_cfg = make_env, cfg, pool_cfg
        self._numbers, self._step_s = episode_numbers.copy(), step_s
        self.environments = [self._environment(e, is_fresh) for e in range(self.num_envs)]
        self._running, self._ready, self._hung, self._faults = {}, [], {}, []

    def _environment(self, e, is_fresh):
        number = int(self._numbers[e])
        return SlotEnvironment(self._make, e, self.slots, self._cfg, number, is_fresh)

    def start(self):
        for e in range(self.num_envs):
            self._begin(e, 0.01 * e)

    def _begin(self, e, seconds):
        self.environments[e].start()
        env = self.environments[e].env
        self._running[e] = env.index, env.seed
        heapq.heappush(self._ready, (self.now + seconds, e))

    @property
    def now(self):
        return self.world.times[self.rank]

    def send(self, envs):
        for e in envs:
            if any(e == other for _, other in self._ready) or e in self._hung:
                continue  # replaced since
            self.environments[e].step()
            heapq.heappush(self._ready, (self.now + self._step_s[e], e))

    def receive(self, timeout_s):
        self._let_happen()
        times = [self.now + timeout_s, *self._hung.values()]
        times += [self._ready[0][0]] if self._ready else []
        self.world.advance(self.rank, min(times))
        for e in [e for e, until in self._hung.items() if until <= self.now]:
            self._replace(e)
        found = []
        while self._ready and self._ready[0][0] <= self.now:
            found.append(heapq.heappop(self._ready)[1])
        for e in found:
            self._announce(e)
            self._numbers[e] = self.slots.episode_number[e] + 1
        return found

    def take_faults(self):
        faults, self._faults = self._faults, []
        return faults

    def close(self):
        """Nothing is left to end."""

    def _break(self, kind, e):
        is_stepping = any(e == other for _, other in self._ready)
        if kind == "die":
            self._replace(e)
        elif is_stepping:  # who waits for an action can neither hang nor be slow
            at = self._forget(e)
            if kind == "hang":
                self._hung[e] = self.now + STEP_TIMEOUT_S
            else:
                heapq.heappush(self._ready, (at + SLOW_S, e))

    def _forget(self, e):
        at = next((at for at, other in self._ready if other == e), None)
        self._ready = [entry for entry in self._ready if entry[1] != e]
        heapq.heapify(self._ready)
        self._hung.pop(e, None)
        return at

    def _replace(self, e):
        """With all environments of its worker."""
        size = self._pool_cfg.envs_per_worker
        envs = list(range(e - e % size, min(e - e % size + size, self.num_envs)))
        if self.restarts == self._pool_cfg.max_restarts:
            raise TooManyRestarts("the budget is spent")
        self.restarts += 1
        self._faults.append(Fault(envs, "died"))
        for e in envs:
            self._forget(e)
            self.diary.faulty.add(self._running[e])
            self.environments[e] = self._environment(e, is_fresh=False)
            self._begin(e, RESTART_S)
