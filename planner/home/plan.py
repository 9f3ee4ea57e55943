"""From PDDL text or files to a plan, and from a plan to readable lines.

text - parse -> Domain, Problem - ground -> GroundTask - search -> plan - validate -> plan
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG

from rearrange.errors import UserError
from rearrange.planner.home.domain import task_domain
from rearrange.planner.home.problems import entities_of, home_domain, skill_call
from rearrange.planner.strips.budget import Plan
from rearrange.planner.strips.grounding import ground
from rearrange.planner.strips.pddl import Domain, GroundAction, parse_domain, parse_problem
from rearrange.planner.strips.search import search
from rearrange.planner.strips.syntax import MAX_CHARACTERS
from rearrange.planner.strips.validate import PlanError, validate


def plan_files(
    domain_path: str | Path,
    problem_path: str | Path,
    algorithm: str = "auto",
    max_nodes: int | None = None,
    timeout_s: float | None = None,
) -> Plan:
    """A validated plan for two PDDL files. Raises UserError naming file and line."""
    domain_text, problem_text = _read(domain_path), _read(problem_path)
    domain = parse_domain(domain_text, Path(domain_path).name)
    return _plan(domain, problem_text, Path(problem_path).name, algorithm, max_nodes, timeout_s)


def solve(
    domain_text: str, problem_text: str, algorithm: str = "auto", max_nodes: int | None = None
) -> Plan:
    """A validated plan for two PDDL texts. Raises UserError; NoPlanError when there is none."""
    return _plan(parse_domain(domain_text), problem_text, "problem", algorithm, max_nodes)


def solve_home(
    problem_text: str, task: str | None = None, max_nodes: int | None = None
) -> Plan:  # fmt: skip
    """A validated plan for a problem of a task's domain, None: the home's own.

    It is parsed only once.
    """
    domain = home_domain() if task is None else task_domain(task)
    return _plan(domain, problem_text, "problem", "astar", max_nodes)


def format_plan(
    plan: Sequence[GroundAction], names: Mapping[str, str] | None = None, *, is_home: bool = False
) -> str:
    """One numbered line per step: `1  navigate(apple)` for the home, else `1  (move a b)`.

    `names`: PDDL name -> the name to print, as of `entity_names`.
    """
    return numbered(home_steps(plan, names) if is_home else [str(action) for action in plan])


def numbered(steps: Sequence[str]) -> str:
    """One numbered line per step."""
    if not steps:
        return "nothing to do: the goals hold already"
    width = len(str(len(steps)))
    return "\n".join(f"{number:{width}}  {text}" for number, text in enumerate(steps, start=1))


def home_steps(
    plan: Sequence[GroundAction],
    names: Mapping[str, str] | None = None,
    skills: Sequence[str] = (),
) -> list[str]:
    """The steps of a plan of the home: `navigate(apple)`.

    `names` as in `format_plan`; `skills`: those that carry out its actions before all others.
    """
    steps: list[str] = []
    for action in plan:
        skill, arguments = skill_call(action, skills)
        if names is not None:
            arguments = entities_of(skill, arguments, names)
        steps.append(f"{skill}({', '.join(arguments)})")
    return steps


def length_text(plan: Plan) -> str:
    """A plan's length and whether it is known to be shortest, as a PDDL comment."""
    if plan.is_shortest:
        return f"; {len(plan)} steps, no plan is shorter"
    least = f": at least {plan.lower_bound} are needed" if plan.lower_bound else ""
    return f"; {len(plan)} steps, not known as shortest{least}"


def _plan(
    domain: Domain,
    problem_text: str,
    source: str,
    algorithm: str,
    max_nodes: int | None,
    timeout_s: float | None = None,
) -> Plan:
    problem = parse_problem(problem_text, domain, source)
    plan = search(ground(domain, problem), algorithm, max_nodes, timeout_s)
    try:
        validate(domain, problem, plan)
    except PlanError as error:  # ours, not the caller's
        raise RuntimeError(f"the search returned an invalid plan: {error}") from error
    return plan


def _read(path: str | Path) -> str:
    path = Path(path)
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):  # a device or pipe may never end
            raise UserError(f"{path}: cannot be read: PDDL must be a regular file")
        if status.st_size > 4 * MAX_CHARACTERS:  # UTF-8 has at most 4 bytes a character
            raise UserError(f"{path}: a PDDL file may have at most {MAX_CHARACTERS:,} characters")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: a PDDL file must be UTF-8 text: {error.reason}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read: {reason}") from None
