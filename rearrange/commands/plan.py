"""`rearrange plan`: the plan for an episode, or for any PDDL domain and problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rearrange.configs.schema import PlanCfg
from rearrange.errors import UserError
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_text, prepare_output

if TYPE_CHECKING:
    from rearrange.planner.strips.budget import Plan


def run(cfg: PlanCfg) -> int:
    """Prints the plan, a step a line."""
    from rearrange.planner.home.plan import length_text, numbered

    found = find_plan(cfg)
    if found.problem is not None:
        width = max(map(len, found.descriptions), default=0)
        pairs = zip(found.descriptions, found.steps, strict=True)
        lines = [f"{text:<{width}}   {step}" for text, step in pairs]
        print("\n".join([numbered(lines), length_text(found.plan)]))
    elif not found.steps:
        print("; the goal holds already: nothing to do")
    else:
        print("\n".join([*found.steps, length_text(found.plan)]))
    return 0


class EpisodePlan(NamedTuple):
    """A plan, of an episode or of PDDL files."""

    plan: Plan
    steps: list[str]
    """As agents and files have them: "pick(any_targets|0)"; of PDDL files "(move a b)"."""
    descriptions: list[str] = []
    """The same for people, of an episode alone: "pick up the bowl"."""
    problem: str | None = None
    """The PDDL problem of an episode."""


def find_plan(cfg: PlanCfg) -> EpisodePlan:
    """The plan; `output` gets an episode's PDDL problem.

    Raises UserError for settings that do not go together, and where there is no plan.
    """
    if cfg.domain is not None and cfg.problem is not None:
        if cfg.output is not None:
            raise UserError("output goes with an episode: your PDDL problem is a file already")
        from rearrange.planner.home.plan import plan_files

        paths = user_path(cfg.domain), user_path(cfg.problem)
        plan = plan_files(*paths, cfg.search, cfg.max_nodes, cfg.timeout_s)
        return EpisodePlan(plan, [str(step) for step in plan])
    if (cfg.search, cfg.max_nodes, cfg.timeout_s) != ("auto", None, None):
        raise UserError("search, max_nodes and timeout_s go with domain= and problem=")
    from rearrange.eval.runner import check_split
    from rearrange.planner.home.descriptions import Descriptions, names_of
    from rearrange.planner.home.domain import task_skills
    from rearrange.planner.home.facts import plan_of_episode
    from rearrange.planner.home.plan import home_steps
    from rearrange.tasks.rules.definition import TASKS

    if not TASKS.find(cfg.task.name).is_planned:
        raise UserError(f"task '{cfg.task.name}' is one skill and has no plan: try tidy_house")
    check_split(cfg.split)
    output = prepare_output(cfg.output)
    episode, problem, plan, names = plan_of_episode(cfg.task.name, cfg.split, cfg.seed, cfg.index)
    if output is not None:
        atomic_write_text(output, problem)
    steps = home_steps(plan, names, task_skills(episode.task))
    described = Descriptions(names_of(episode))
    return EpisodePlan(plan, steps, [described.step(step) for step in steps], problem)
