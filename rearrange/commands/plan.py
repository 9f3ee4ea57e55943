"""`rearrange plan`: the plan for an episode, or for any PDDL domain and problem."""

from pathlib import Path

from rearrange.configs.schema import PlanCfg
from rearrange.errors import UserError
from rearrange.system.outputs import atomic_write_text


def run(cfg: PlanCfg) -> int:
    """Prints the plan, a step a line."""
    if cfg.domain is not None and cfg.problem is not None:
        if cfg.output is not None:
            raise UserError("output goes with an episode: your PDDL problem is a file already")
        return _plan_files(cfg, Path(cfg.domain).expanduser(), Path(cfg.problem).expanduser())
    if (cfg.search, cfg.max_nodes, cfg.timeout_s) != ("auto", None, None):
        raise UserError("search, max_nodes and timeout_s go with domain= and problem=")
    from rearrange.eval.runner import check_split
    from rearrange.planner.home.facts import plan_for_episode

    if not cfg.task.stage_skills:
        raise UserError(f"task '{cfg.task.name}' is one skill and has no plan: try tidy_house")
    check_split(cfg.split)
    problem, lines = plan_for_episode(cfg.task.name, cfg.split, cfg.seed, cfg.index)
    if cfg.output is not None:
        atomic_write_text(Path(cfg.output).expanduser(), problem)
    print("\n".join(lines))
    return 0


def _plan_files(cfg: PlanCfg, domain: Path, problem: Path) -> int:
    from rearrange.planner.home.plan import length_text, plan_files

    plan = plan_files(domain, problem, cfg.search, cfg.max_nodes, cfg.timeout_s)
    steps = [str(step) for step in plan] or ["; the goal holds already: nothing to do"]
    print("\n".join([*steps, length_text(plan)] if plan else steps))
    return 0
