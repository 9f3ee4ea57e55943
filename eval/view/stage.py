"""The stage: one environment, whoever drives in it, and what was done there so far.

Who takes over in the middle of an episode may need other sensors than there are: then the world
goes on in an environment that has them, bit for bit as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from rearrange.configs.schema import AgentSettings, TaskCfg
from rearrange.configs.viewing import ViewCfg
from rearrange.eval.runner import (
    EpisodeRunnerCfg,
    check_accepted,
    check_name,
    make_env_and_agent,
    reset_options,
    runner_cfg,
)
from rearrange.eval.view.keys import Person
from rearrange.planner.agents.agent import AGENTS, begin_episode
from rearrange.system.outputs import expand
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec

YOU = "you"
ENDLESS = 10**9  # control steps: a year


@dataclass
class Driven:
    """What was done in an episode: enough to do it again."""

    episode: EpisodeSpec
    actions: list[np.ndarray] = field(default_factory=list)
    """[11] each."""
    motor_leads: list[float] = field(default_factory=list)
    """rad that motors' targets might run ahead; 0: any."""
    statuses: list[str] = field(default_factory=list)
    """What the driver said it was at."""
    drivers: list[str] = field(default_factory=list)
    """Who acted, each once, in order."""


class Chosen(NamedTuple):
    """What episodes are of."""

    task: str
    """Its own name, also where the settings have MODULE:NAME."""
    split: str
    limit: bool
    """Whether time is limited."""


def chosen_in(cfg: ViewCfg) -> Chosen:
    """What the settings ask for."""
    return Chosen(TASKS.name_of(cfg.task.name), cfg.split, cfg.time_limit)


class _Made(NamedTuple):
    env: Any
    agent: Any
    made_for: tuple[Any, ...]
    """Driver, task, split, and whether time is limited."""


class Stage:
    """Where an episode is played.

    Args:
        cfg: the settings that were given; task, split and limit may be changed by `choose`.
        held_keys: gives the keys that are down.

    Attributes:
        env: unwrapped.
        agent: who drives, called `driver`.
        observation, info: the newest, as the driver gets them.
    """

    def __init__(self, cfg: ViewCfg, held_keys: Any) -> None:
        self.cfg, self._held_keys = cfg, held_keys
        self.driver = cfg.agent
        self.env: Any = None
        self.agent: Any = None
        self.observation: Any = None
        self.info: dict[str, Any] = {}
        self.driven: Driven | None = None
        self._made_for: tuple[Any, ...] = ()

    @property
    def chosen(self) -> Chosen:
        """What the episodes are of."""
        return chosen_in(self.cfg)

    def choose(self, **changes: Any) -> None:
        """What the next episodes are of: fields of `Chosen`.

        A driver that cannot drive in the task leaves it to you. Raises UserError for a task that
        there is not.
        """
        task, split, limit = self.chosen._replace(**changes)
        part = self.cfg.task
        if "task" in changes:
            found = TASKS.find(task)
            stages = [list(skills) for skills in found.stage_skills]
            part = TaskCfg(name=task, title=found.title, stage_skills=stages)
        self.cfg = replace(self.cfg, task=part, split=split, time_limit=limit)
        if "task" in changes and self.driver not in drivers_for(task):
            self.driver = YOU

    def begin(self, index: int, lock: Any) -> None:
        """The episode of that index, from its start. Raises UserError; all then stays as it was.

        Slow things come before `lock` is taken: who looks meanwhile sees the world of before.
        """
        made = self._make(self.driver)
        options = options_of(self.cfg, index)
        with lock:
            kept = _Made(self.env, self.agent, self._made_for)
            try:
                self._take(made)
                self.observation, self.info = self.env.reset(options=options)
                begin_episode(self.agent, self.observation, self.info)
            except BaseException:
                if kept.env is not None:  # the world of before stays to be looked at
                    self._take(kept)
                raise
            self.driven = Driven(self.env.episode)

    def hand_over(self, driver: str, lock: Any) -> None:
        """Somebody else goes on from here. Raises UserError, and then all stays as it was."""
        made, before = self._make(driver), self.env
        with lock:
            state = before.get_state()
            kept = _Made(self.env, self.agent, self._made_for)
            try:
                self._take(made)
                if self.env is not before:
                    self.env.set_state(state, looks_anew=True)  # each its own sensors
                    self.observation = self.env.current_observation
                begin_episode(self.agent, self.observation, self.info)
            except BaseException:
                self._take(kept)
                raise

    def act(self) -> np.ndarray:
        """What the driver does next: an action [11] in [-1, 1]."""
        action = np.asarray(self.agent.act(self.observation, self.info), np.float32)
        return np.clip(action, -1.0, 1.0)

    def carry_out(self, action: np.ndarray) -> tuple[float, bool]:
        """One control step: its reward, and whether the episode is over."""
        driven = self.driven
        assert driven is not None
        driven.actions.append(action)
        driven.motor_leads.append(self.env.sim.motor_lead or 0.0)
        driven.statuses.append(self.agent.status)
        if self.driver not in driven.drivers:
            driven.drivers.append(self.driver)
        self.observation, reward, terminated, truncated, self.info = self.env.step(action)
        return float(reward), bool(terminated or truncated)

    def _make(self, driver: str) -> _Made:
        """Environment and agent for a driver; those that are there if they will do."""
        cfg = self._settings(driver)
        made_for = (driver, cfg.task.name, cfg.split, cfg.time_limit)
        if made_for == self._made_for:
            return _Made(self.env, self.agent, made_for)
        options: dict[str, Any] = {"depth": True}
        if not cfg.time_limit:
            options["max_episode_steps"] = ENDLESS
        check_driver(cfg)
        if driver != YOU:
            env, agent = make_env_and_agent(runner_cfg(cfg), **options)
            return _Made(env.unwrapped, agent, made_for)
        env: Any = self.env
        if self._made_for[1:] != made_for[1:]:  # else a person sees what the last driver saw
            env = make_env(
                task=cfg.task.name,
                split=cfg.split,
                seed=cfg.seed,
                homes=cfg.homes,
                **options,
            )
        return _Made(env, Person(env.sim, self._held_keys), made_for)

    def _take(self, made: _Made) -> None:
        self.env, self.agent, self._made_for = made
        self.driver = made.made_for[0]

    def _settings(self, driver: str) -> ViewCfg:
        """The settings of a driver: given ones for the agent that was given."""
        if driver == self.cfg.agent:
            return self.cfg
        unset, kept = AgentSettings(), ("agent", "homes")
        plain = {f.name: getattr(unset, f.name) for f in fields(unset) if f.name not in kept}
        return replace(self.cfg, **plain | {"agent": driver})


def options_of(cfg: ViewCfg, index: int) -> dict[str, Any]:
    """How an environment is reset to an episode. Raises UserError for one that there is not."""
    episodes = EpisodeRunnerCfg(
        task=cfg.task.name, agent=YOU, split=cfg.split, seed=cfg.seed,
        episodes=expand(cfg.episodes),
    )  # fmt: skip
    return reset_options(episodes, index)


def check_driver(cfg: ViewCfg) -> None:
    """Raises UserError for an agent that there is not, and for settings that it would ignore."""
    if cfg.agent == YOU:
        check_accepted(cfg, None)
        return
    if ":" not in cfg.agent:
        check_name("agent", cfg.agent, [YOU, *AGENTS])
    check_accepted(cfg, cfg.agent)


def drivers_for(task: str) -> list[str]:
    """Who can drive in a task: you first."""
    from rearrange.planner.agents.skill_set import variant_of
    from rearrange.skills.definition import SKILLS

    planned = TASKS[task].is_planned
    taught = any(s.task == task and s.teacher is not None for s in SKILLS.values())
    found = []
    for name in AGENTS:
        if name == "teacher" and not taught or name == "learned" and planned:
            continue
        if planned or variant_of(name) is None:
            found.append(name)
    return [YOU, *found]
