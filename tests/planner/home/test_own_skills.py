"""Plans with skills, facts and domains of a user's own."""

from dataclasses import replace

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.planner.agents.beliefs import Beliefs
from rearrange.planner.agents.chain import ChainProgram
from rearrange.planner.agents.fact_sources import PrivilegedFacts, SensedFacts, has_worked
from rearrange.planner.agents.memory import Memory
from rearrange.planner.agents.oracle_skills import OracleSkills, own_episode
from rearrange.planner.home.calls import call_of
from rearrange.planner.home.domain import DOMAINS, PlannerDomain, task_domain, task_skills
from rearrange.planner.home.facts import entities, plan_of_episode, read_facts
from rearrange.planner.home.plan import home_steps
from rearrange.planner.home.problems import DOMAIN_PATH, task_problem
from rearrange.planner.strips.pddl import GroundAction
from rearrange.sim.simulation import Simulation
from rearrange.skills.definition import SKILLS, Operator
from rearrange.skills.motion.robot import Robot
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.home import HomeTask

DRAWER, ROBOT = "cab_push_point_5", "robot_0"
PRESS = """(:action press
    :parameters (?c - cab ?r - robot)
    :precondition (and (robot_at ?c ?r) {more})
    :effect (pressed ?c))"""


class Powered(HomeTask):
    """Reports at the start what no simulator shows."""

    def __init__(self, name):
        super().__init__(name, num_targets=2, max_steps=2000)

    def planner_facts(self):
        return [("powered", DRAWER)]


@pytest.fixture
def own(monkeypatch):
    """own(more, **changes): a task whose goal is a pressed drawer; `more`: of the precondition."""
    for registry in (TASKS, SKILLS, DOMAINS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    def add(more="(not_holding ?r)", places=(0,), **changes):
        task_domain.cache_clear()
        skill = replace(
            SKILLS["open_drawer"], name="press", operators={"press": Operator(places)},
            predicates="(pressed ?c - cab) (powered ?c - cab)", actions=PRESS.format(more=more),
        )  # fmt: skip
        SKILLS.add("press", skill)
        task = replace(
            TASKS["tidy_house_easy"], name="own", env_id="test/Own-v0",
            goals=(("pressed", DRAWER),), more_skills=("press",),
        )  # fmt: skip
        TASKS._entries["own"] = replace(task, **changes)
        return "own"

    yield add
    task_domain.cache_clear()


def shown(task):
    _, _, plan, names = plan_of_episode(task, "val", 0, 0)
    return home_steps(plan, names, task_skills(task))


def test_a_skill_that_may_occur_in_plans_is_planned_with(own):
    assert shown(own())[-2:] == [f"navigate({DRAWER})", f"press({DRAWER})"]


def test_a_plan_knows_what_the_task_reports_at_the_start(own):
    assert f"press({DRAWER})" in shown(own("(powered ?c)", rules=Powered))
    with pytest.raises(UserError, match="no plan"):
        shown(own("(powered ?c)"))


@pytest.mark.parametrize("places", [(), (2,), (-1,), (0, 5)])
def test_an_operator_names_arguments_that_its_action_has(own, places):
    line = "operator press of skill press must name arguments of the action from 0 to 1, at least"
    with pytest.raises(UserError, match=line):
        shown(own(places=places))


def test_of_two_skills_for_an_action_the_tasks_own_carries_it_out(own):
    SKILLS.add("my_pick", replace(SKILLS["pick"], name="my_pick"))
    task = own(skills=("navigate", "my_pick", "place"))
    assert {step.partition("(")[0] for step in shown(task)} == {
        "navigate", "my_pick", "place", "press",
    }  # fmt: skip
    assert {step.partition("(")[0] for step in shown("tidy_house")} == {"navigate", "pick", "place"}


def test_what_a_skill_needs_in_the_hand_is_carried_to_it(own):
    """To a handle too, which is no goal of what is carried."""
    task = own()
    episode = generate_episode("tidy_house_easy", "val", 0, 0)
    names = entities(episode)
    movable = next(name for name, entity in names.items() if entity == episode.targets[0].name)
    none = frozenset()
    there = frozenset({("robot_at", DRAWER, ROBOT)})
    way = GroundAction("nav", ("somewhere", DRAWER, ROBOT), none, none, there, none)
    press = GroundAction("press", (DRAWER, ROBOT), none, none, none, none)
    holding = frozenset({("holding", movable, ROBOT)})
    tap = replace(press, preconditions_pos=holding)
    pick = GroundAction("pick", (movable, "somewhere", ROBOT), none, none, holding, none)
    skills = task_skills(task)
    assert call_of(way, names, [tap], skills).is_carrying
    assert call_of(way, names, [way, tap], skills).is_carrying
    for rest in ([press], [pick, way, tap], []):
        assert not call_of(way, names, rest, skills).is_carrying
    SKILLS.add("my_navigate", replace(SKILLS["navigate"], name="my_navigate"))
    mine = call_of(way, names, [way, tap], ("my_navigate", *skills))
    assert mine.skill == "my_navigate" and mine.is_driving and mine.is_carrying


def test_a_navigate_of_ones_own_has_worked_where_the_robot_is(own, sim):
    """Whatever its name: so has what also does something else, if that came about too."""
    own()
    SKILLS.add("my_navigate", replace(SKILLS["navigate"], name="my_navigate"))
    episode = generate_episode("tidy_house_easy", "val", 0, 0)
    sim.reset(episode.scene)
    name, first = next(pair for pair in entities(episode).items() if pair[1] == "any_targets|0")
    none, there = frozenset(), frozenset({("robot_at", name, ROBOT)})
    way = GroundAction("nav", ("somewhere", name, ROBOT), none, none, there, none)
    call = call_of(way, entities(episode), (), ("my_navigate",))
    truth = PrivilegedFacts(sim, episode)
    place = sim.object_pos_w(episode.targets[0].object)
    for away, is_there in ((1.0, True), (9.0, False)):
        sim.set_robot((place[0] - away, place[1], 0.0), sim.arm_qpos)
        assert has_worked(truth, episode, way, call) == is_there
    sim.set_robot((place[0] - 1.0, place[1], 0.0), sim.arm_qpos)
    fetch = replace(way, add_effects=there | {("holding", name, ROBOT)})
    assert not has_worked(truth, episode, fetch, call)


def test_what_is_pushed_to_its_goal_is_not_held_and_believed_to_lie_there(own, sim):
    own()
    push = replace(SKILLS["pick"], name="push", operators={"push": Operator((0,))})
    SKILLS.add("push", push)
    episode = generate_episode("tidy_house_easy", "val", 0, 0)
    sim.reset(episode.scene)
    memory = Memory(sim, episode, read_facts(sim, episode))
    first, none = episode.targets[0], frozenset()
    pddl = {entity: name for name, entity in entities(episode).items()}
    movable, goal = pddl[first.name], pddl[f"TARGET_{first.name}"]
    lying = frozenset({("object_at", movable, goal)})
    pushed = GroundAction("push", (movable, goal, ROBOT), none, none, lying, none)
    call = call_of(pushed, entities(episode))
    assert not call.is_carrying and not own_episode(episode, call).start_holding
    source = SensedFacts(memory, episode)
    for failure in ("out of time", None):
        source.end(pushed, call, failure)
        assert has_worked(source, episode, pushed, call) == (failure is None)
    assert memory.facts.placed == {first.name: f"TARGET_{first.name}"}


@pytest.fixture(scope="module")
def sim():
    return Simulation()


def test_memory_believes_a_skill_that_picks_up_or_puts_down_under_another_name(own, sim):
    own()
    grasp = replace(SKILLS["pick"], name="grasp", operators={"grasp": Operator((0,))})
    SKILLS.add("grasp", grasp)
    SKILLS.add("put", replace(grasp, name="put", operators={"put": Operator((0,))}))
    episode = generate_episode("tidy_house_easy", "val", 0, 0)
    sim.reset(episode.scene)
    memory = Memory(sim, episode, read_facts(sim, episode))
    first = episode.targets[0]
    pddl = {entity: name for name, entity in entities(episode).items()}
    movable, goal = pddl[first.name], pddl[f"TARGET_{first.name}"]
    held, none = frozenset({("holding", movable, ROBOT)}), frozenset()
    taken = GroundAction("grasp", (movable, ROBOT), none, none, held, none)
    lying = frozenset({("object_at", movable, goal)})
    laid = GroundAction("put", (movable, goal, ROBOT), held, none, lying, held)
    memory.begin(call_of(taken, entities(episode)))
    memory.feel(True)
    assert memory.facts.held == first.name
    memory.begin(call_of(laid, entities(episode)))
    sim.set_robot((first.goal[0], first.goal[1], 0.0), sim.arm_qpos)
    away = np.hypot(*(sim.ee_pos_w - first.goal)[:2])
    sim.set_robot((first.goal[0] - away, first.goal[1], 0.0), sim.arm_qpos)
    memory.feel(False)
    assert memory.facts.held is None
    assert memory.facts.placed == {first.name: f"TARGET_{first.name}"}


def test_what_a_skill_acts_on_need_not_be_what_it_puts_away(own, sim):
    """A handle, say: what is in the hand, and where it goes, its effects tell."""
    stow = replace(SKILLS["open_drawer"], name="stow", operators={"Stow": Operator((0,))})
    SKILLS.add("stow", stow)
    own()
    episode = generate_episode("tidy_house_easy", "val", 0, 0)
    sim.reset(episode.scene)
    second = episode.targets[1]
    pddl = {entity: name for name, entity in entities(episode).items()}
    movable, goal = pddl[second.name], pddl[f"TARGET_{second.name}"]
    held, none = frozenset({("holding", movable, ROBOT)}), frozenset()
    lying = frozenset({("object_at", movable, goal)})
    stowed = GroundAction("stow", (DRAWER, movable, goal, ROBOT), held, none, lying, held)
    call = call_of(stowed, entities(episode))
    assert (call.skill, call.entity, call.target) == ("stow", DRAWER, second.name)
    one = own_episode(episode, call)
    assert (one.marker, one.target_index, one.start_holding) == (DRAWER, 1, True)
    for memory in (Memory(sim, episode, read_facts(sim, episode)), Beliefs(sim, episode)):
        memory.begin(call)
        for is_holding in (False, True, False):
            memory.feel(is_holding)
        believed = np.array(second.start) + memory.offset(1)
        np.testing.assert_allclose(believed[:2], sim.ee_pos_w[:2], atol=1e-9)
        assert not memory.offset(0).any()


def test_what_a_skill_undoes_of_an_object_is_believed_undone(own, sim):
    class Dirty(HomeTask):
        def planner_facts(self):
            return [("Dirty", target.name) for target in self._targets]

    own()
    episode = generate_episode("tidy_house_easy", "val", 0, 0)
    sim.reset(episode.scene)
    rules = Dirty("tidy_house_easy", num_targets=2, max_steps=2000)
    rules.start(sim, episode)
    facts = read_facts(sim, episode, rules)
    source = SensedFacts(Memory(sim, episode, facts), episode)
    (first, *rest), none = [(name,) for name in entities(episode)][:2], frozenset()
    assert {("dirty", *first), ("dirty", *rest[0])} == source.facts().more
    wash = GroundAction("press", (*first, ROBOT), none, none, none, frozenset({("dirty", *first)}))
    source.end(wash, call_of(wash, entities(episode)), None)
    assert source.facts().more == {("dirty", *rest[0])}


def test_a_chain_stops_where_the_goals_of_a_domain_of_its_own_hold(own, sim):
    """Whatever lies elsewhere than at its target's goal."""

    def problem(episode, facts, robot_at=None):
        return task_problem(
            "shut", facts.containers, {}, [], facts.states, held=facts.held, robot_at=robot_at,
            final_states={"fridge_push_point": "closed"},
        )  # fmt: skip

    mine = PlannerDomain(pddl=DOMAIN_PATH, problem=problem, entities=entities)
    DOMAINS.add("mine", mine)
    own(domain="mine", goals=(), more_skills=())
    episode = generate_episode("own", "val", 0, 0)
    sim.reset(episode.scene)
    robot = Robot(sim)
    program = ChainProgram(robot, episode, OracleSkills(robot, episode)).run()
    steps = 0
    with pytest.raises(StopIteration) as end:
        for steps in range(100):  # noqa: B007
            next(program)
    assert end.value.value is None and steps == 10
