"""The doors: a registry for each kind of thing that can be added, and what comes with the package.

    TASKS     what is asked of the robot: rules, episodes, Gymnasium id    TaskDefinition
    AGENTS    who acts in an episode: called with the environment          a class or function

`rearrange.system.registry` says how names are found, and how a module of your own adds some. This
is the one place where the names of the package's own stand. None of them is imported for it:
"module:Name" is looked up when it is first asked for.
"""

from __future__ import annotations

from rearrange.planner.agents.agent import AGENTS
from rearrange.tasks import actions
from rearrange.tasks.rules.definition import TASKS, TaskDefinition

_RULES, _EPISODES = "rearrange.tasks.rules", "rearrange.tasks.episodes.generate"
_PICK_AND_PLACE = (("navigate", "pick"), ("navigate", "place"))
_USUAL = ("navigate", "pick", "place")


def add_all() -> None:
    """Adds everything. Harmless when called again."""
    for task in (*_home_tasks(), *_skill_tasks()):
        TASKS.add(task.name, task)
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
            name=name, env_id=_gym_id(name), title=_words(name), stream=stream,
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


_AGENTS = {
    "oracle": "rearrange.planner.agents.chain_agents:OracleAgent",
    "tp_srl": "rearrange.planner.agents.chain_agents:TpSrlAgent",
    "tp_srl_nonav": "rearrange.planner.agents.chain_agents:TpSrlNoNavAgent",
    "tp_srl_fixed_base": "rearrange.planner.agents.chain_agents:TpSrlFixedBaseAgent",
    "learned": "rearrange.planner.agents.registry:LearnedAgent",
    "random": "rearrange.planner.agents.registry:RandomAgent",
}


def _gym_id(name: str) -> str:
    return f"rearrange/{_words(name).replace(' ', '')}-v0"


def _words(name: str) -> str:
    return name.replace("_", " ").title()
