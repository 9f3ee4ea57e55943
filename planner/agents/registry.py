"""Agents by name.

oracle             plans from the world's state, carries the plan out with oracle skills, replans
                   when a fact is lost
tp_srl             plans, carries the plan out with trained skills, replans from its own senses
tp_srl_nonav       the same without Navigate
tp_srl_fixed_base  the same with manipulation skills that do not drive
learned            one trained skill, on the task it was trained in
teacher            the rules that imitation learns from, on a task of one skill
random             uniform random actions, a lower reference
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rearrange.errors import UserError
from rearrange.planner.agents.agent import AGENTS, Agent
from rearrange.planner.agents.chain_agents import OracleAgent, TpSrlAgent
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.agents.skill_set import SkillSet
from rearrange.skills.definition import SKILLS, skill_for
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import ACTION_SIZE, STOP

if TYPE_CHECKING:
    from rearrange.skills.deployed.skill_files import SkillFile


class RandomAgent:
    """Acts at random, reproducibly per episode, and never calls stop."""

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped
        self.attempts: list[tuple[str, bool]] = []
        self.status, self.plan_lines, self.failure = "random actions", [], None

    def reset(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> None:
        """Seeds itself from the episode."""
        episode = self._env.episode
        self._rng = np.random.default_rng([episode.seed, episode.index, 11])

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """A uniform action without stop, which would end every episode at once."""
        shape: tuple[int, ...] = self._env.action_space.shape
        action = self._rng.uniform(-1.0, 1.0, shape).astype(np.float32)
        if len(action) == ACTION_SIZE:
            action[STOP] = -1.0
        return action


class LearnedAgent:
    """Runs one trained skill, from a run's folder or a skill file, in its own task."""

    accepted_settings = ("checkpoint", "sample", "skills")

    def __init__(self, env: Any, skill: SkillFile, is_sampling: bool = False) -> None:
        from rearrange.skills.deployed.learned import LearnedPolicy  # torch: only where it is used

        self._env = env.unwrapped
        self._policy = LearnedPolicy(skill, is_sampling)
        task = self._env.task.name
        if self._policy.task != task:
            trained = self._policy.task
            raise UserError(f"{skill.source} was trained in task {trained}, not in {task}")
        self.plan_lines, self.status, self.failure = [f"> {task}"], task, None

    def reset(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> None:
        """Starts an episode."""
        self._policy.reset(self._env.episode.index)

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """The policy's action."""
        return self._policy.act(observation)

    @property
    def attempts(self) -> list[tuple[str, bool]]:
        """The skill, and whether it has worked."""
        return [(self._policy.task, bool(self._env.is_success))]


class TeacherAgent:
    """Acts by the rules that imitation learns from, in a task of one skill."""

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped
        task = self._env.task.name
        check_teacher(task)
        self.plan_lines, self.status, self.failure = [f"> {task}"], task, None

    def reset(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> None:
        """Starts the rules of the episode."""
        self._rules = skill_for(self._env.task.name).start_teacher(
            Robot(self._env.sim), self._env.episode
        )

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """The rules' action."""
        action = np.clip(self._rules.act(), -1.0, 1.0).astype(np.float32)
        self._rules.done = action
        return action

    @property
    def attempts(self) -> list[tuple[str, bool]]:
        """The skill, and whether it has worked."""
        return [(self.status, bool(self._env.is_success))]


def check_teacher(task: str) -> None:
    """Raises UserError for a task whose skill has no teacher."""
    taught = [skill.task for skill in SKILLS.values() if skill.teacher is not None]
    if task not in taught:
        raise UserError(
            f"task {task} has no teacher; agent=teacher is for task={', '.join(taught)}"
        )


def make_agent(
    name: str,
    env: Any,
    skill: SkillFile | None = None,
    is_sampling: bool = False,
    skills: SkillSet | None = None,
    chain: ChainCfg | None = None,
) -> Agent:
    """The agent called `name`, or `package.module:Name`, for an environment.

    A user-defined agent is called with the environment alone; a subclass of ours gets the arguments
    of its base.

    Args:
        skill: for `learned`.
        is_sampling: for `learned`: sample actions as in training.
        skills: for `tp_srl*`, from `skill_set.load_skill_set`.
        chain: for agents that chain skills.

    Raises UserError for an unknown name, and for a skill that is missing or of another task.
    """
    kind = AGENTS.find(name)
    family = kind if isinstance(kind, type) else object
    if issubclass(family, OracleAgent):
        return kind(env, chain)
    if issubclass(family, TpSrlAgent):
        if skills is None:
            raise UserError(f"agent={name} needs its trained skills, see `load_skill_set`")
        return kind(env, skills, chain)
    if not issubclass(family, LearnedAgent):
        return kind(env)
    if skill is None:
        raise UserError("agent=learned needs checkpoint=, a training run's folder or a skill file")
    return kind(env, skill, is_sampling)
