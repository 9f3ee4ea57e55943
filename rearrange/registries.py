"""Fills the registries of everything that can be extended with the package's own entries.

    TASKS       what is asked of the robot: rules, episodes, Gymnasium id  TaskDefinition
    SKILLS      what the robot can learn: task, teacher, deployment, recipe SkillDefinition
    DOMAINS     what tasks of several skills are planned in                PlannerDomain
    AGENTS      who acts in an episode: called with the environment        a class or function
    NETWORKS    policies: of observation, action and `PolicyCfg`           skills/network/policy.py
    ALGORITHMS  what learns from rollouts: act, store, returns, update     ver/update/algorithm.py
    KINDS       loose objects: shape, size, mass, colour                   sim/home/objects.py
    KINDS       furniture: boxes, surfaces; for files of homes             sim/homes/kinds.py

The last four stay where they are, as torch and the simulator come with them.

`rearrange.system.registry` says how names are found, and how a module of your own adds some. This
is the one place where the names of the package's own stand. None of them is imported for it:
"module:Name" is looked up when it is first asked for.
"""

from __future__ import annotations

from pathlib import Path

from rearrange.planner.agents.agent import AGENTS
from rearrange.planner.home.domain import DOMAINS, PlannerDomain
from rearrange.skills.definition import SKILLS, Operator, Phrases, SkillDefinition
from rearrange.tasks import actions
from rearrange.tasks.rules.definition import TASKS, TaskDefinition

_RULES, _EPISODES = "rearrange.tasks.rules", "rearrange.tasks.episodes.generate"
_STEPS = "rearrange.planner.agents.oracle_skills"
_RECIPES = Path(__file__).with_name("configs") / "skill"
_PICK_AND_PLACE = (("navigate", "pick"), ("navigate", "place"))
_USUAL = ("navigate", "pick", "place")


def add_all() -> None:
    """Adds everything. Harmless when called again."""
    for task in (*_home_tasks(), *_skill_tasks()):
        TASKS.add(task.name, task)
    for skill in _skills():
        SKILLS.add(skill.name, skill)
    DOMAINS.add("home", _home_domain())
    for name, where in _AGENTS.items():
        AGENTS.add(name, where)


def _home_tasks() -> tuple[TaskDefinition, ...]:
    """Tasks that take a plan of several skills."""

    def task(
        name: str, title: str, stream: int, stages: tuple[tuple[str, ...], ...],
        always: tuple[str, ...] = (), perhaps: tuple[str, ...] = (),
    ) -> TaskDefinition:  # fmt: skip
        return TaskDefinition(
            name=name, env_id=_gym_id(name), title=title, stream=stream, domain="home",
            rules=f"{_RULES}.home:{name.upper()}", episodes=f"{_EPISODES}:{name.upper()}",
            skills=(*_USUAL, *always), more_skills=perhaps, stage_skills=stages,
        )  # fmt: skip

    fridge, drawer = ("open_fridge",), ("open_drawer",)
    table = (
        ("navigate", "open_drawer", "navigate", "pick"), ("navigate", "place"),
        ("navigate", "open_fridge", "navigate", "pick"), ("navigate", "place"),
    )  # fmt: skip
    return (
        task("tidy_house", "Tidy House", 0, 5 * _PICK_AND_PLACE),
        task("prepare_groceries", "Prepare Groceries", 1, 3 * _PICK_AND_PLACE, (), fridge),
        task("set_table", "Set Table", 2, table, (*drawer, *fridge)),
        task("tidy_house_easy", "Tidy House (easy)", 3, 2 * _PICK_AND_PLACE),
        task("prepare_groceries_easy", "Prepare Groceries (easy)", 4, _PICK_AND_PLACE, (), fridge),
        task("set_table_easy", "Set Table (easy)", 5, _PICK_AND_PLACE, (), drawer),
        task("rearrange_easy", "Rearrange (easy)", 6, _PICK_AND_PLACE, (), (*drawer, *fridge)),
    )


def _skill_tasks() -> tuple[TaskDefinition, ...]:
    """Tasks of one skill; it has their name."""

    def task(name: str, stream: int, rules: str, **slots: tuple[int, ...]) -> TaskDefinition:
        return TaskDefinition(
            name=name, env_id=_gym_id(name), title=_title(name), stream=stream,
            rules=f"{_RULES}.{rules}", episodes=f"{_EPISODES}:{name.upper()}", action_slots=slots,
        )  # fmt: skip

    drive, arm, stop = actions.BASE_STOP, actions.ARM_GRIP, actions.ARM_GRIP_STOP
    return (
        task("navigate", 10, "navigate:NavigateTask", skill=drive, stationary=drive),
        task("pick", 11, "pick:PickTask", skill=actions.NO_STOP, stationary=arm),
        task("place", 12, "place:PlaceTask", skill=actions.NO_STOP, stationary=arm),
        task("open_drawer", 13, "articulation:OPEN_DRAWER", stationary=stop),
        task("close_drawer", 14, "articulation:CLOSE_DRAWER", stationary=stop),
        task("open_fridge", 15, "articulation:OPEN_FRIDGE"),
        task("close_fridge", 16, "articulation:CLOSE_FRIDGE"),
    )


def _skills() -> tuple[SkillDefinition, ...]:
    """What the robot can learn, each in the task of its name."""

    def skill(
        name: str, program: str, teacher: str, deployment: str, reach: str | None,
        operators: dict[str, Operator], trained: int | None = None, oracle: int = 700,
    ) -> SkillDefinition:  # fmt: skip
        return SkillDefinition(
            name=name, task=name, recipe=_RECIPES / f"{name}.yaml", operators=operators,
            phrases=_PHRASES[name],
            program=f"rearrange.skills.oracle.programs:{program}",
            teacher=f"rearrange.skills.teacher.rules:{teacher}",
            deployment=f"rearrange.skills.deployed.deployment:{deployment}",
            step=f"{_STEPS}:{program}", reach=reach and f"{_STEPS}:{reach}",
            trained_steps=trained, oracle_steps=oracle,
        )  # fmt: skip

    def actions(count: int, *names: str) -> dict[str, Operator]:
        return dict.fromkeys(names, Operator(tuple(range(count))))

    def door(name: str) -> dict[str, Operator]:
        return {name: Operator((0,), name)}

    handle, opening, closing = "reach_handle", "open_container", "close_container"
    picks = actions(1, "pick", "pick_from_cab", "pick_from_fridge")
    places = actions(2, "place", "place_in_cab", "place_in_fridge")
    # Control steps of trained ones, more than their own tasks give: what opens has to drive further
    # in a chain, and one in ten of the Picks and Places in the fridge, around its open door, takes
    # more than 270. A Pick or Place that stands still is over sooner.
    return (
        skill("navigate", "navigate", "navigate", "NAVIGATE", None, {"nav": Operator((1,))}),
        skill("pick", "pick", "pick", "PICK", "reach_pick", picks, 400, 900),
        skill("place", "place", "place", "PLACE", "reach_place", places, 400, 800),
        skill("open_drawer", opening, opening, "OPEN", handle, door("open_cab"), 300),
        skill("close_drawer", closing, "close_drawer", "CLOSE", None, door("close_cab")),
        skill("open_fridge", opening, opening, "OPEN", handle, door("open_fridge"), 300),
        skill("close_fridge", closing, "close_fridge", "CLOSE", None, door("close_fridge")),
    )


_PHRASES = (
    {
        "navigate": Phrases("go to {thing}", "going to {thing}", "it stood before {thing}"),
        "pick": Phrases("pick up {thing}", "picking up {thing}", "{thing} was in the hand"),
        "place": Phrases("{what} -> {place}", "placing {thing}", "{thing} was in its place"),
    }
    | {
        f"open_{what}": Phrases(
            f"open the {what}", f"opening the {what}", f"the {what} was open and the arm back"
        )
        for what in ("drawer", "fridge")
    }
    | {
        f"close_{what}": Phrases(
            f"close the {what}", f"closing the {what}", f"the {what} was shut and the arm back"
        )
        for what in ("drawer", "fridge")
    }
)


def _home_domain() -> PlannerDomain:
    facts = "rearrange.planner.home.facts"
    pddl = Path(__file__).with_name("planner") / "home" / "domain.pddl"
    return PlannerDomain(pddl=pddl, problem=f"{facts}:problem_left", entities=f"{facts}:entities")


_AGENTS = {
    "oracle": "rearrange.planner.agents.chain_agents:OracleAgent",
    "tp_srl": "rearrange.planner.agents.chain_agents:TpSrlAgent",
    "tp_srl_nonav": "rearrange.planner.agents.chain_agents:TpSrlNoNavAgent",
    "tp_srl_fixed_base": "rearrange.planner.agents.chain_agents:TpSrlFixedBaseAgent",
    "learned": "rearrange.planner.agents.registry:LearnedAgent",
    "teacher": "rearrange.planner.agents.registry:TeacherAgent",
    "random": "rearrange.planner.agents.registry:RandomAgent",
}


def _gym_id(name: str) -> str:
    return f"rearrange/{_title(name).replace(' ', '')}-v0"


def _title(name: str) -> str:
    return name.replace("_", " ").title()
