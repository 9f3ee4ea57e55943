"""A session: what the page asks for, the clock, and the words for each moment.

    page -- keys, mouse, requests --> session -- steps at 30 Hz --> stage
    painter <-- the newest moment, under a lock --'

The clock starts with the first key that moves the robot, or at once where an agent drives from the
start.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from rearrange.configs.viewing import ViewCfg
from rearrange.errors import UserError
from rearrange.eval.film.film import describe_failure
from rearrange.eval.view.instructions import Instruction, instruct
from rearrange.eval.view.keys import Person, is_driving
from rearrange.eval.view.messages import Said
from rearrange.eval.view.moments import SPEEDS, about_world, focus_of
from rearrange.eval.view.painting import Moment, OrbitCamera
from rearrange.eval.view.replay import Evaluation
from rearrange.eval.view.stage import YOU, Stage, chosen_in, drivers_for
from rearrange.eval.view.terms import History, reward_terms
from rearrange.sim.homes.layout import SPLITS
from rearrange.system.files import user_path
from rearrange.tasks.rules.definition import TASKS

CONTROL_DT = 1.0 / 30.0  # s
MOST_STEPS = 10  # at a time: a machine too slow for real time shows slow motion, not jumps
PAUSE_S = 3.0  # before an agent's next episode


class Session:
    """What goes on between a page and a stage; `run` in the main thread, `look` in the painter's.

    Args:
        server: whose page it is: a `ViewServer`, or what has its `take` and `held_keys`.
        evaluation: whose episodes are shown again; `cfg` is then that of it.
    """

    def __init__(self, cfg: ViewCfg, server: Any, evaluation: Evaluation | None = None) -> None:
        self.lock = threading.RLock()
        self.camera = OrbitCamera()
        self.stage = Stage(cfg, lambda: server.held_keys)
        self.index = cfg.index if evaluation is None else evaluation.order[0]
        self.steps, self.speed = 0, 1.0
        self.is_paused = self.is_started = self.is_over = False
        self.result, self.message = "", ""
        self._server, self._evaluation = server, evaluation
        self._other = "oracle" if cfg.agent == YOU else cfg.agent
        self._history = History()
        self._version = self._scene = 0
        self._reward, self._ended = 0.0, 0.0
        self._instruction = Instruction("")
        self._loading = "The home is being furnished ..."

    # --- the clock -----------------------------------------------------------------------------

    def run(self, is_ending: Any) -> None:
        """Until `is_ending()`."""
        self.begin(self.index)
        clock = time.monotonic()
        while not is_ending():
            for said in self._server.take():
                self.hear(said)
            due = int((time.monotonic() - clock) * self.speed / CONTROL_DT)
            self.advance(min(due, MOST_STEPS))
            late = due > MOST_STEPS or not self.is_moving
            clock = time.monotonic() if late else clock + due * CONTROL_DT / self.speed
            if self._is_next_due():
                self.begin(self._following())
            time.sleep(max(0.001, clock + CONTROL_DT / self.speed - time.monotonic()))

    @property
    def is_moving(self) -> bool:
        """Whether the world goes on by itself."""
        return self.is_started and not self.is_paused and not self.is_over

    def advance(self, num_steps: int) -> None:
        """So many control steps, if the world moves."""
        if self.stage.driver == YOU and is_driving(self._server.held_keys):
            self._start()
        for _ in range(num_steps):
            if not self.is_moving:
                return
            self.step_once()

    def step_once(self) -> None:
        """One control step, paused or not."""
        stage = self.stage
        if self.is_over:
            return
        action = stage.act()  # may take its time: the painter goes on meanwhile
        with self.lock:
            reward, self.is_over = stage.carry_out(action)
            self.steps += 1
            self._reward += reward
            terms = reward_terms(reward, stage.env, stage.info)
            self._history.add(self.steps, stage.env.sim.force_instant, terms)
            self._instruction = instruct(stage.env.sim, stage.env.episode)
            self._version += 1
            if self.is_over:
                self._ended = time.monotonic()
                episode = stage.env.episode
                failure = describe_failure(episode, stage.agent, stage.info)
                self.result = "success" if stage.info["success"] else failure
                self.message = self._verdict()

    def begin(self, index: int, **chosen: Any) -> None:
        """An episode from its start; whoever drives stays.

        Args:
            chosen: arguments of `Stage.choose`; refused ones change nothing.
        """
        self._say(loading="The home is being furnished ...")
        kept = self.stage.cfg, self.stage.driver
        try:
            self.stage.choose(**chosen)
            self.stage.begin(index, self.lock)
        except UserError as error:
            if self.stage.driven is None:
                raise  # there is nothing else to show
            self.stage.cfg, self.stage.driver = kept
            if self._is_next_due():  # an agent's, which there is not: it is not due again
                self._ended = math.inf
            self._say(message=str(error))
            return
        with self.lock:
            self.index, self.steps, self._reward = index, 0, 0.0
            self._history.clear()
            self.is_over, self.result, self.message = False, "", ""
            self.is_started = self.stage.driver != YOU
            self._instruction = instruct(self.stage.env.sim, self.stage.env.episode)
            self._scene += 1
            self._say()

    # --- what the page says --------------------------------------------------------------------

    def hear(self, said: Said) -> None:
        """Does what a message asks for."""
        person = self.stage.agent
        with self.lock:
            if any(said.orbit) or said.zoom:
                self.camera.turn(said.orbit, said.zoom)
                self._version += 1
            if any(said.hand) and isinstance(person, Person):
                person.pull(self.camera.hand_way(said.hand))
                self._start()
        for key in said.pressed:
            self._press(key)
        if said.ask:
            try:
                self._do(said.ask, said.value)
            except UserError as error:
                self._say(message=str(error))

    def _press(self, key: str) -> None:
        if isinstance(self.stage.agent, Person):
            self.stage.agent.press(key)
            if is_driving((key,)):
                self._start()
        asked = {
            "p": "pause",
            ".": "step",
            "Backspace": "again",
            "Enter": "next",
            "k": "save",
        }
        if key in asked:
            self.hear(Said(frozenset(), ask=asked[key]))
        elif key == "o":
            driver = self._other if self.stage.driver == YOU else YOU
            self.hear(Said(frozenset(), ask="drive", value=driver))

    def _do(self, ask: str, value: Any) -> None:
        """A request of `messages.REQUESTS`. Raises UserError for a value that makes no sense."""
        if ask == "pause":
            self.is_paused = not self.is_paused
            self._say()
        elif ask == "step":
            self.is_paused = self.is_started = True
            self.step_once()
        elif ask == "start":
            self._start()
        elif ask in ("again", "next"):
            self.begin(self._following() if ask == "next" else self.index)
        elif ask == "drive":
            self._drive(str(value))
        elif ask == "save":
            self._keep()
        elif ask == "speed":
            if value not in SPEEDS:
                raise UserError(f"speed must be one of {', '.join(f'{s:g}' for s in SPEEDS)}")
            self.speed = float(value)
            self._say()
        else:
            self._choose(ask, value)

    def _choose(self, ask: str, value: Any) -> None:
        """Another task, split, limit or episode: begins anew."""
        if ask == "task" and value in TASKS:
            self.begin(0, task=str(value))
        elif ask == "split" and value in SPLITS:
            self.begin(self.index, split=str(value))
        elif ask == "limit" and isinstance(value, bool):
            self.begin(self.index, limit=value)
        elif ask == "episode" and isinstance(value, int) and 0 <= value < 10**9:
            self.begin(value)
        else:
            raise UserError(f"{ask} cannot be {value!r}")

    def _drive(self, driver: str) -> None:
        if driver == self.stage.driver:
            return
        self._say(loading=f"{driver} takes over ..." if driver != YOU else "")
        try:
            self.stage.hand_over(driver, self.lock)
            self._scene += 1
        finally:
            self._say()
        if driver != YOU:
            self._other = driver
            self._start()

    def _keep(self) -> None:
        """What was driven so far, as a demonstration."""
        from rearrange.eval.view.saving import (
            default_folder,
            keep,
        )  # packages that few need

        stage, cfg = self.stage, self.stage.cfg
        if stage.driven is None:
            return
        self._say(loading="Playing it back and keeping it ...")
        try:
            folder = default_folder(cfg.task.name, cfg.split, cfg.format)
            if cfg.output is not None:
                folder = user_path(cfg.output)
            kept = keep(stage.driven, stage.env, folder, cfg.format)
        except UserError as error:
            self._say(message=str(error))
            return
        many = "one" if kept.number == 1 else f"{kept.number}"
        self._say(message=f"Kept, {kept.steps} steps: {folder} has {many} by now.")

    def _following(self) -> int:
        """The episode after this one."""
        return self.index + 1 if self._evaluation is None else self._evaluation.after(self.index)

    def _verdict(self) -> str:
        """Of an evaluated episode: whether it ended as it did then."""
        stage, evaluation = self.stage, self._evaluation
        assert stage.driven is not None
        if evaluation is None or stage.driven.drivers != [evaluation.cfg.agent]:
            return ""
        if stage.chosen != chosen_in(evaluation.cfg):
            return ""  # an episode of another task or split, or without end
        return evaluation.verdict(self.index, self.result, self.steps)

    def _start(self) -> None:
        if not self.is_started:
            self.is_started = True
            self._say()

    def _is_next_due(self) -> bool:
        is_agent = self.stage.driver != YOU and self.stage.driver == self.stage.cfg.agent
        return self.is_over and is_agent and time.monotonic() > self._ended + PAUSE_S

    def _say(self, message: str = "", loading: str = "") -> None:
        with self.lock:
            self.message, self._loading = message, loading
            self._version += 1

    # --- what there is to see ------------------------------------------------------------------

    def look(self) -> Moment:
        """The newest moment; call it under `lock`."""
        env = self.stage.env if self._scene else None
        state, focus = self._about_session(), None
        if env is not None:
            focus = focus_of(self.stage, self._instruction)
            state |= about_world(self.stage, self._instruction)
            state["history"] = self._history.rows()
        return Moment(self._version, self._scene, env, focus, state)

    def _about_session(self) -> dict[str, Any]:
        return {
            **self.stage.chosen._asdict(),
            "index": self.index,
            "scene": self._scene,
            "driver": self.stage.driver,
            "drivers": drivers_for(self.stage.chosen.task),
            "steps": self.steps,
            "clock": round(self.steps * CONTROL_DT, 2),
            "speed": self.speed,
            "reward": round(self._reward, 4),
            "is_paused": self.is_paused,
            "is_started": self.is_started,
            "result": self.result,
            "message": self.message,
            "loading": self._loading,
        }
