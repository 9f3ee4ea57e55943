"""From the simulation to PDDL: the current facts, as a problem with the remaining goals.

    Simulation + EpisodeSpec  --read_facts-->  HomeFacts  --problem_left-->  text  --solve-->  plan

`read_facts` reads HAB's predicates from the simulator (`tasks.rules.predicates`). Facts may come
from elsewhere too: from what the robot remembers (`planner.agents.memory`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rearrange.planner.home.domain import entity_table, problem_text
from rearrange.planner.home.plan import solve_home
from rearrange.planner.home.problems import entity_names, pddl_fact, task_problem
from rearrange.planner.strips.budget import Plan
from rearrange.planner.strips.pddl import GroundAction
from rearrange.sim.home import furniture as fur
from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.files import load_episode
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec, Target
from rearrange.tasks.rules.predicates import closed, contained, object_at, opened
from rearrange.tasks.rules.rulebook import make_task
from rearrange.tasks.rules.task import Task

MARKERS_IN_USE = ("cab_push_point_5", "cab_push_point_7", "fridge_push_point")


def goal_name(target_name: str) -> str:
    """HAB's name of a target's goal."""
    return f"TARGET_{target_name}"


def entities(episode: EpisodeSpec) -> dict[str, str]:
    """PDDL name -> HAB's entity name, for everything a plan of this episode can mention."""
    names = [target.name for target in episode.targets]
    return entity_names([*names, *(goal_name(name) for name in names), *MARKERS_IN_USE])


@dataclass
class HomeFacts:
    """Facts about an episode's objects and containers, by HAB's entity names."""

    containers: dict[str, str | None]
    """Target -> handle of the drawer or fridge that it is in; None: in none."""
    placed: dict[str, str]
    """Target -> the goal that it is at, its own or another."""
    states: dict[str, str]
    """Handle -> open, closed or between."""
    held: str | None = None
    """The target in the hand."""
    more: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    """Facts of predicates that skills have added to the domain, by names in PDDL, as effects of
    steps are."""


def read_facts(sim: Simulation, episode: EpisodeSpec, task: Task | None = None) -> HomeFacts:
    """The current facts: privileged, from the simulator's state and the task's rules."""
    joints = {marker: fur.MARKERS[marker] for marker in MARKERS_IN_USE}
    facts = HomeFacts(containers={}, placed={}, states={})
    for target in episode.targets:
        inside = [m for m, joint in joints.items() if contained(sim, target.object, joint)]
        facts.containers[target.name] = inside[0] if inside else None
        if sim.held_object == target.object:
            facts.held = target.name
        elif (place := _goal_it_lies_at(sim, episode, target)) is not None:
            facts.placed[target.name] = goal_name(place.name)
    facts.states = {
        marker: "open" if opened(sim, joint) else "closed" if closed(sim, joint) else "between"
        for marker, joint in joints.items()
    }
    if task is not None:
        facts.more = set(map(pddl_fact, task.planner_facts()))
    return facts


def problem_left(episode: EpisodeSpec, facts: HomeFacts, robot_at: str | None = None) -> str:
    """The remaining problem as PDDL text: current facts and the episode's goals.

    `robot_at` is the entity that the robot last navigated to, None if it is at none.
    """
    goals: dict[str, str | None] = {}
    for target in episode.targets:
        joint = target.goal_container
        goals[goal_name(target.name)] = fur.MARKER_OF_JOINT[joint] if joint else None
    pairs = [(target.name, goal_name(target.name)) for target in episode.targets]
    return task_problem(
        f"{episode.task}_{episode.split}_{episode.index}", facts.containers, goals, pairs,
        facts.states, held=facts.held, robot_at=robot_at, placed=facts.placed,
        more_facts=sorted(facts.more), more_goals=TASKS[episode.task].goals,
    )  # fmt: skip


def observe(sim: Simulation, episode: EpisodeSpec, robot_at: str | None = None) -> str:
    """The remaining problem by the simulator's state, see `read_facts` and `problem_left`."""
    return problem_left(episode, read_facts(sim, episode), robot_at)


def _goal_it_lies_at(sim: Simulation, episode: EpisodeSpec, target: Target) -> Target | None:
    """The target whose goal an object is at: its own, or another where it was put aside."""
    others = (other for other in episode.targets if other is not target)
    for place in (target, *others):
        if object_at(sim, replace(target, goal=place.goal)):
            return place
    return None


def plan_episode(
    sim: Simulation, episode: EpisodeSpec, robot_at: str | None = None
) -> list[GroundAction]:
    """The plan from the current facts; empty if nothing is left to do. Raises NoPlanError."""
    return solve_home(observe(sim, episode, robot_at), episode.task)


def plan_of_episode(
    task: str, split: str, seed: int, index: int
) -> tuple[EpisodeSpec, str, Plan, dict[str, str]]:
    """An episode with the problem text, plan and names (PDDL -> entity) of its start."""
    episode = load_episode(TASKS.find(task).name, split, seed, index)
    sim = Simulation()
    sim.reset(episode.scene)
    rules = make_task(episode.task)
    rules.start(sim, episode)
    problem = problem_text(episode, read_facts(sim, episode, rules))
    return episode, problem, solve_home(problem, episode.task), entity_table(episode)
