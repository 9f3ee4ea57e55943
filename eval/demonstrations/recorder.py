"""RecordingEnv: an environment wrapper that records the episode."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from rearrange.eval.demonstrations.demonstration import (
    DEPTH,
    Demonstration,
    to_codes,
    world_digest,
)
from rearrange.eval.runner import EpisodeRecord
from rearrange.planner.agents.agent import Agent
from rearrange.planner.home.descriptions import Descriptions, names_of, running_step
from rearrange.tasks.rules.definition import TASKS


class RecordingEnv(gymnasium.Wrapper):
    """Hands everything on, and has a `demonstration` of the episode in the end.

    Actions are carried out as they are kept, in single precision and from -1 to 1.

    Args:
        env: RearrangeEnv.
        agent: whose `status` says at which step of the plan it is; None: nobody says.
    """

    def __init__(self, env: gymnasium.Env, agent: Agent | None = None) -> None:
        super().__init__(env)
        self.world: Any = env.unwrapped
        self._agent = agent

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = super().reset(seed=seed, options=options)
        self._seen: list[dict[str, np.ndarray]] = []
        self._depth: list[np.ndarray] = []
        self._worlds: list[int] = []
        self._actions: list[np.ndarray] = []
        self._outcomes: list[tuple[float, bool, bool, bool]] = []
        self._leads: list[float] = []
        self._skills: list[str] = []
        self._steps: list[str] = []
        self._descriptions = Descriptions(names_of(self.world.episode))
        self._title = TASKS[self.world.episode.task].title
        self._see(observation)
        return observation, info

    def step(self, action: np.ndarray) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        action = np.clip(np.asarray(action, np.float32), -1.0, 1.0)
        self._say()
        self._leads.append(self.world.sim.motor_lead or 0.0)
        observation, reward, terminated, truncated, info = super().step(action)
        self._actions.append(action)
        outcome = float(reward), bool(terminated), bool(truncated), bool(info["success"])
        self._outcomes.append(outcome)
        self._see(observation)
        return observation, reward, terminated, truncated, info

    def demonstration(self, facts: dict[str, Any]) -> Demonstration:
        """The episode so far. Raises ValueError before its first step."""
        rewards, terminated, truncated, success = zip(*self._outcomes, strict=True)
        names = self._seen[0]
        return Demonstration(
            facts=facts,
            observations={name: np.stack([seen[name] for seen in self._seen]) for name in names},
            depth=np.stack(self._depth) if self._depth else None,
            actions=np.stack(self._actions),
            rewards=np.array(rewards),
            terminated=np.array(terminated),
            truncated=np.array(truncated),
            success=np.array(success),
            motor_leads=np.array(self._leads),
            worlds=np.array(self._worlds),
            skills=self._skills,
            steps=self._steps,
        )

    def _see(self, observation: dict[str, np.ndarray]) -> None:
        self._seen.append({name: value for name, value in observation.items() if name != DEPTH})
        if DEPTH in observation:
            self._depth.append(to_codes(observation[DEPTH][:, :, 0]))
        self._worlds.append(world_digest(self.world.sim))

    def _say(self) -> None:
        step = running_step(self.world.episode, self._agent.status if self._agent else "")
        self._skills.append(step.partition("(")[0])
        self._steps.append(self._descriptions.step(step) if step else self._title)


def facts_of(env: RecordingEnv, agent: str, record: EpisodeRecord) -> dict[str, Any]:
    """What is to be known of a whole episode, beside its frames."""
    episode = env.world.episode
    return {
        "task": episode.task,
        "instruction": TASKS[episode.task].title,
        "agent": agent,
        "split": episode.split,
        "seed": episode.seed,
        "index": episode.index,
        "scene": episode.scene.layout_id,
        "success": record.success,
        "result": record.result(),
        "environment": dict(env.world.init_kwargs),
    }
