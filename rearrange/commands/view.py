"""`rearrange view`: an episode in a browser, driven by an agent or with the keyboard."""

import io
import time
from typing import Any

import numpy as np
from PIL import Image

from rearrange.configs.schema import ViewCfg
from rearrange.eval.film.film import caption, describe_failure
from rearrange.eval.film.frames import FrameMaker
from rearrange.eval.film.view_server import ViewServer
from rearrange.eval.runner import (
    check_accepted,
    check_name,
    check_split,
    make_env_and_agent,
    runner_cfg,
)
from rearrange.planner.agents.agent import AGENTS, Agent
from rearrange.tasks.registry import make_env

CONTROL_DT = 1.0 / 30.0  # s
MAX_STEPS_A_PICTURE = 10  # a machine too slow for real time shows slow motion, not jumps
PICTURE_S, DETAIL = 0.2, 0.5  # time between pictures, about; half as fine as a film's: faster
PAUSE_S = 3.0  # before an agent's next episode
NEXT, AGAIN = "Enter", "Backspace"

ARM_KEYS = ("qa", "ws", "ed", "rf", "tg", "yh", "uj")  # joint by joint: forward, backward
ARM_LABELS = (
    "shoulder pan",
    "shoulder lift",
    "upper arm",
    "elbow",
    "forearm",
    "wrist",
    "hand roll",
)
HELP = (
    "<p><kbd>Enter</kbd> next episode <kbd>Backspace</kbd> the same again</p>"
    "<table><tr><td><kbd>arrow keys</kbd> drive <td><kbd>space</kbd> suction on or off"
    "<td><kbd>x</kbd> stop: the task is done<tr>"
    + "".join(
        f"<td><kbd>{keys[0]}</kbd> <kbd>{keys[1]}</kbd> {label}{'<tr>' if place % 3 == 2 else ''}"
        for place, (keys, label) in enumerate(zip(ARM_KEYS, ARM_LABELS, strict=True))
    )
    + "</table>"
)


class KeyboardAgent:
    """Turns held keys into actions."""

    failure: str | None = None
    plan_lines: list[str] = []

    def __init__(self, server: ViewServer, num_actions: int) -> None:
        self._server, self._num_actions = server, num_actions
        self.attempts: list[tuple[str, bool]] = []
        self._is_gripping = False

    @property
    def status(self) -> str:
        return f"suction {'on' if self._is_gripping else 'off'}"

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        """Forgets the suction of the last episode."""
        self._is_gripping = False

    def press(self, key: str) -> None:
        """Takes a key that went down."""
        if key == " ":
            self._is_gripping = not self._is_gripping

    def act(self, observation: Any, info: dict[str, Any]) -> np.ndarray:
        """Arm 7, grip 1, base 2, stop 1, each in [-1, 1]."""
        held = self._server.held_keys

        def axis(forward: str, backward: str) -> float:
            return float(forward in held) - float(backward in held)

        arm = [axis(*keys) for keys in ARM_KEYS]
        base = [axis("ArrowUp", "ArrowDown"), axis("ArrowLeft", "ArrowRight")]
        action = [*arm, 1.0 if self._is_gripping else -1.0, *base, 1.0 if "x" in held else -1.0]
        return np.array(action[: self._num_actions], dtype=np.float32)


def run(cfg: ViewCfg) -> int:
    """Serves until Ctrl-C."""
    check_split(cfg.split, cfg.homes)
    agent: Agent | None = None
    if cfg.agent == "you":
        check_accepted(cfg, None)
        env = make_env(
            task=cfg.task.name, split=cfg.split, seed=cfg.seed, homes=cfg.homes, depth=False
        )
    else:
        if ":" not in cfg.agent:
            check_name("agent", cfg.agent, ["you", *AGENTS])
        env, agent = make_env_and_agent(runner_cfg(cfg))
    server = ViewServer(cfg.port, HELP)
    try:
        if agent is None:
            shape = env.action_space.shape
            assert shape is not None  # a box
            agent = KeyboardAgent(server, shape[0])
        print(f"open http://localhost:{server.port}/ in a browser; Ctrl-C ends", flush=True)
        index = cfg.index
        while True:
            index += _show_episode(env, agent, server, cfg, index)
    finally:
        server.close()


def _show_episode(env: Any, agent: Agent, server: ViewServer, cfg: ViewCfg, index: int) -> int:
    """One episode, until a key asks for another; returns how far the next one is."""
    observation, info = env.reset(options={"index": index})
    agent.reset(observation, info)
    frames = FrameMaker(env.unwrapped, cfg.renderer, seconds=PICTURE_S, detail=DETAIL)
    clock, is_over, result, ended = time.monotonic(), False, "", 0.0
    while True:
        for key in server.take_pressed():
            if key in (NEXT, AGAIN):
                return int(key == NEXT)
            if isinstance(agent, KeyboardAgent):
                agent.press(key)
        due = int((time.monotonic() - clock) / CONTROL_DT)
        for _ in range(min(due, MAX_STEPS_A_PICTURE)):
            if not is_over:
                action = agent.act(observation, info)
                observation, _, terminated, truncated, info = env.step(action)
                is_over = terminated or truncated
        clock = time.monotonic() if due > MAX_STEPS_A_PICTURE else clock + due * CONTROL_DT
        if is_over and not result:
            episode = env.unwrapped.episode
            result = "success" if info["success"] else describe_failure(episode, agent, info)
            ended = time.monotonic()
        texts = caption(cfg.task.title, env.unwrapped.episode, agent, info, "", result)
        server.publish(_jpeg(frames.draw(texts)))
        if result and not isinstance(agent, KeyboardAgent) and time.monotonic() > ended + PAUSE_S:
            return 1
        time.sleep(max(0.0, clock + CONTROL_DT - time.monotonic()))


def _jpeg(frame: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="JPEG", quality=80)
    return buffer.getvalue()
