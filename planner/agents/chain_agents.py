"""Agents that run programs: the oracle, and the chains of trained skills (TP-SRL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.planner.agents.beliefs import Beliefs
from rearrange.planner.agents.chain import ChainProgram
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.agents.fact_sources import SensedFacts
from rearrange.planner.agents.learned_skills import LearnedSkills
from rearrange.planner.agents.memory import Memory
from rearrange.planner.agents.oracle_skills import OracleSkills
from rearrange.planner.agents.skill_set import SkillSet, Variant
from rearrange.planner.home.facts import read_facts
from rearrange.skills.deployed.deployment import Frames, Senses
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle.programs import skill_program
from rearrange.skills.skill import ACTION_SIZE, STOP, Program, checked_action
from rearrange.tasks.rules.names import HOME_TASKS


class ProgramAgent:
    """Runs one program per episode and calls stop at its end."""

    def __init__(self, env: Any, cfg: ChainCfg | None = None) -> None:
        self._env = env.unwrapped
        self._cfg = cfg or ChainCfg()
        self._chain: ChainProgram | None = None
        if self._env.action_space.shape != (ACTION_SIZE,):
            raise UserError(
                f"this agent needs the full action space of {ACTION_SIZE} numbers, got "
                f"{self._env.action_space.shape[0]}; use action_space=full"
            )

    def reset(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> None:
        """Starts the program of the episode."""
        self._robot = Robot(self._env.sim)
        self._chain = None
        self.failure: str | None = None
        self._is_done = False
        self._program = self._start()

    def _start(self) -> Program:
        """The episode's program; it sets `_chain` if it is one."""
        raise NotImplementedError

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """The program's next action; after its end, stop."""
        if not self._is_done:
            try:
                action = next(self._program)
                return checked_action(action, f"the program of {self._env.task.name}")
            except StopIteration as end:
                self._is_done, self.failure = True, end.value
        action = self._robot.action()
        action[STOP] = 1.0
        return action

    @property
    def attempts(self) -> list[tuple[str, bool]]:
        """Skills tried so far and whether each worked."""
        return self._chain.attempts if self._chain is not None else []

    @property
    def status(self) -> str:
        """The running step of the plan and what the robot is doing."""
        step = self._chain.status if self._chain is not None else ""
        return f"{step}: {self._robot.phase}" if self._robot.phase else step

    @property
    def plan_lines(self) -> list[str]:
        """The plan, a line a step, the running one marked."""
        return self._chain.plan_lines if self._chain is not None else []


class OracleAgent(ProgramAgent):
    """Plans and acts from the simulator's state: privileged, an upper reference."""

    accepted_settings = ("looks", "max_failures")

    def _start(self) -> Program:
        episode = self._env.episode
        self._skill = "" if episode.task in HOME_TASKS else episode.task
        if self._skill:
            return skill_program(self._robot, episode)
        maker = OracleSkills(self._robot, episode)
        self._chain = ChainProgram(self._robot, episode, maker, self._cfg, task=self._env.task)
        return self._chain.run()

    @property
    def attempts(self) -> list[tuple[str, bool]]:
        """Skills tried so far and whether each worked."""
        if not self._skill:
            return super().attempts
        if self._is_done:
            return [(self._skill, self.failure is None)]
        # Ended by the task itself: success or time limit.
        return [(self._skill, bool(self._env.is_success))]

    @property
    def status(self) -> str:
        """The running step of the plan and what the robot is doing."""
        if not self._skill:
            return super().status
        return f"{self._skill}: {self._robot.phase}" if self._robot.phase else self._skill

    @property
    def plan_lines(self) -> list[str]:
        """The plan, a line a step, the running one marked."""
        return [self._skill] if self._skill else super().plan_lines


class TpSrlAgent(ProgramAgent):
    """Plans, and carries the plan out with trained skills that move arm and base.

    Privileged are, with `looks=privileged`, the facts for planning and checks and how far a drawer
    is open, and each skill of `oracle_skills`; else trained skills, their ends and the arm reset
    use the robot's own sensors. HAB gives with the task what is in which container at the start,
    and which are shut.
    """

    variant = Variant()
    accepted_settings = ("sample", "skills", "oracle_skills", "looks", "max_failures", "limits")

    def __init__(self, env: Any, skills: SkillSet, cfg: ChainCfg | None = None) -> None:
        super().__init__(env, cfg)
        self._skills = skills
        if self._env.task.name not in HOME_TASKS:
            known = ", ".join(HOME_TASKS)
            raise UserError(f"there is no plan for {self._env.task.name}; there are for {known}")

    def _start(self) -> Program:
        episode = self._env.episode
        self._senses = Senses()
        sim, source = self._robot.sim, None
        if self._cfg.looks == "privileged":
            self._beliefs = Beliefs(sim, episode)
        else:
            memory = self._beliefs = Memory(sim, episode, read_facts(sim, episode, self._env.task))
            if self._cfg.looks == "own":
                source = SensedFacts(memory, episode)
        maker = LearnedSkills(
            self._robot, episode, self._senses, self._skills, self._cfg, self._beliefs
        )
        self._chain = ChainProgram(self._robot, episode, maker, self._cfg, source, self._env.task)
        return self._chain.run()

    def act(self, observation: Mapping[str, np.ndarray], info: dict[str, Any]) -> np.ndarray:
        """The running skill's next action; after the chain's end, stop."""
        env = self._env
        frames = Frames(env.sim.ee_rot_w.copy(), env.sim.base_pose[2])
        self._senses.update(observation, env.current_observation, frames, env.observation_delay)
        self._beliefs.feel(self._senses.is_holding)
        return super().act(observation, info)


class TpSrlNoNavAgent(TpSrlAgent):
    """As tp_srl without Navigate: its steps count as done, and the other skills drive."""

    variant = Variant(skipped=frozenset(["navigate"]))


class TpSrlFixedBaseAgent(TpSrlAgent):
    """As tp_srl, but Pick, Place and the drawer skills move the arm only (NAME_fixed_base)."""

    variant = Variant(is_fixed_base=True)
