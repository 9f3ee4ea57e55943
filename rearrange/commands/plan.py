"""`rearrange plan`: the plan for an episode, or for any PDDL domain and problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rearrange.configs.schema import PlanCfg
from rearrange.errors import UserError
from rearrange.system.outputs import atomic_write_text

if TYPE_CHECKING:
    from rearrange.planner.strips.budget import Plan


def run(cfg: PlanCfg) -> int:
    """Prints the plan, a step a line."""
    from rearrange.planner.home.plan import length_text, numbered

    plan, steps, problem = find_plan(cfg)
    if problem is not None:
        print("\n".join([numbered(steps), length_text(plan)]))
    elif not steps:
        print("; the goal holds already: nothing to do")
    else:
        print("\n".join([*steps, length_text(plan)]))
    return 0


def find_plan(cfg: PlanCfg) -> tuple[Plan, list[str], str | None]:
    """The plan, its steps in words, and of an episode its PDDL problem, which `output` gets.

    Raises UserError for settings that do not go together, and where there is no plan.
    """
    if cfg.domain is not None and cfg.problem is not None:
        if cfg.output is not None:
            raise UserError("output goes with an episode: your PDDL problem is a file already")
        from rearrange.planner.home.plan import plan_files

        paths = Path(cfg.domain).expanduser(), Path(cfg.problem).expanduser()
        plan = plan_files(*paths, cfg.search, cfg.max_nodes, cfg.timeout_s)
        return plan, [str(step) for step in plan], None
    if (cfg.search, cfg.max_nodes, cfg.timeout_s) != ("auto", None, None):
        raise UserError("search, max_nodes and timeout_s go with domain= and problem=")
    from rearrange.eval.runner import check_split
    from rearrange.planner.home.facts import plan_of_episode
    from rearrange.planner.home.plan import home_steps
    from rearrange.tasks.rules.definition import TASKS

    if not TASKS.find(cfg.task.name).is_planned:
        raise UserError(f"task '{cfg.task.name}' is one skill and has no plan: try tidy_house")
    check_split(cfg.split)
    problem, plan, names = plan_of_episode(cfg.task.name, cfg.split, cfg.seed, cfg.index)
    if cfg.output is not None:
        atomic_write_text(Path(cfg.output).expanduser(), problem)
    return plan, home_steps(plan, names), problem
