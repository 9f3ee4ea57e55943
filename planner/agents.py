"""Agents by name: what turns observations into actions over a whole episode.

oracle   plans from the world's state, carries the plan out with oracle skills, replans when a fact
         is lost
learned  one trained skill, on the task it was trained in
random   uniform random actions, the floor under every figure
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rearrange.errors import UserError
from rearrange.planner.chain import ChainProgram
from rearrange.skills.body import Body
from rearrange.skills.oracle import skill_program
from rearrange.skills.skill import ACTION_SIZE, STOP

if TYPE_CHECKING:
    from rearrange.skills.skill_files import SkillFile


class RandomAgent:
    """Acts at random, the same way in the same episode, and never stops on purpose."""

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped
        self.attempts: list[tuple[str, bool]] = []
        self.status, self.plan_lines, self.failure = "random actions", [], None

    def reset(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> None:
        """Seeds itself with the episode's own numbers."""
        episode = self._env.episode
        self._rng = np.random.default_rng([episode.seed, episode.index, 11])

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """A uniform action; stop is left alone, else every episode would end at once."""
        action = self._rng.uniform(-1.0, 1.0, self._env.action_space.shape).astype(np.float32)
        if len(action) == ACTION_SIZE:
            action[STOP] = -1.0
        return action


class OracleAgent:
    """Runs an oracle program, of one skill or of a whole task, and stops when it is through."""

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped
        if self._env.action_space.shape != (ACTION_SIZE,):
            raise UserError(
                f"the oracle needs the full action space of {ACTION_SIZE} numbers, got "
                f"{self._env.action_space.shape[0]}; use action_space=full"
            )

    def reset(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> None:
        """Starts the program of the episode's task."""
        episode, sim = self._env.episode, self._env.sim
        self._body = Body(sim)
        self._chain: ChainProgram | None = None
        self._skill = ""
        self.failure: str | None = None
        self._attempts: list[tuple[str, bool]] = []
        if info.get("stages"):
            self._chain = ChainProgram(self._body, episode)
            self._program = self._chain.run()
        else:
            self._skill = episode.task
            self._program = skill_program(self._body, episode)
        self._is_done = False

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """The program's next action; after its end, stop."""
        if not self._is_done:
            try:
                return next(self._program)
            except StopIteration as end:
                self._is_done, self.failure = True, end.value
                if self._skill:
                    self._attempts.append((self._skill, end.value is None))
        action = self._body.action()
        action[STOP] = 1.0
        return action

    @property
    def attempts(self) -> list[tuple[str, bool]]:
        """Skills tried so far and whether each worked."""
        if self._chain is not None:
            return self._chain.attempts
        if self._skill and not self._attempts:  # ended by the task itself, which is success or time
            return [(self._skill, bool(self._env.is_success))]
        return self._attempts

    @property
    def status(self) -> str:
        """The running step of the plan and what the body is doing."""
        step = self._chain.status if self._chain is not None else self._skill
        return f"{step}: {self._body.phase}" if self._body.phase else step

    @property
    def plan_lines(self) -> list[str]:
        """The plan, a line a step, the running one marked."""
        return self._chain.plan_lines if self._chain is not None else [self._skill]


class LearnedAgent:
    """Runs one trained skill, from a run's folder or a skill file, in its own task."""

    def __init__(self, env: Any, skill: SkillFile, is_sampling: bool = False) -> None:
        from rearrange.skills.learned import LearnedPolicy  # torch: only where it is used

        self._env = env.unwrapped
        self._policy = LearnedPolicy(skill, is_sampling)
        task = self._env.task.name
        if self._policy.task != task:
            trained = self._policy.task
            raise UserError(f"{skill.source} was trained in task {trained}, not in {task}")
        self.plan_lines, self.status, self.failure = [f"> {task}"], task, None

    def reset(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> None:
        """Forgets the last episode."""
        self._policy.reset(self._env.episode.index)

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """The policy's action."""
        return self._policy.act(observation)

    @property
    def attempts(self) -> list[tuple[str, bool]]:
        """The skill, and whether it has worked."""
        return [(self._policy.task, bool(self._env.is_success))]


AGENTS = {"oracle": OracleAgent, "learned": LearnedAgent, "random": RandomAgent}


def make_agent(
    name: str, env: Any, skill: SkillFile | None = None, is_sampling: bool = False
) -> OracleAgent | LearnedAgent | RandomAgent:
    """The agent called `name` for an environment.

    Args:
        skill: for `learned`.
        is_sampling: for `learned`: draw actions as in training.

    Raises UserError for an unknown name, and for a skill that is missing or of another task.
    """
    if name not in AGENTS:
        raise UserError(f"agent must be one of {', '.join(AGENTS)}; got {name!r}")
    if name != "learned":
        return AGENTS[name](env)
    if skill is None:
        raise UserError("agent=learned needs checkpoint=, a training run's folder or a skill file")
    return LearnedAgent(env, skill, is_sampling)
