"""What the robot's memory makes of a skill that has ended, by the effects of its step."""

import numpy as np
import pytest

from rearrange.planner.agents.fact_sources import SensedFacts, handle_state
from rearrange.planner.agents.memory import Memory
from rearrange.planner.home.calls import Call
from rearrange.planner.home.facts import read_facts
from rearrange.planner.home.problems import home_domain
from rearrange.planner.strips.pddl import GroundAction
from rearrange.tasks.registry import make_env

DRAWER = "cab_push_point_5"


class Hand:
    """A simulation of which nothing is used but where its hand is put, and objects at first."""

    ee_pos_w = np.zeros(3)
    held_object = None

    def __init__(self, sim):
        self.object_pos_w, self.data = sim.object_pos_w, sim.data

    def joint_position(self, joint):
        return 0.0


@pytest.fixture(scope="module")
def env():
    env = make_env("set_table", "val", depth=False)
    env.reset(options={"index": 0})
    return env


@pytest.fixture
def source(env):
    memory = Memory(Hand(env.sim), env.episode, read_facts(env.sim, env.episode))
    return SensedFacts(memory, env.episode), memory


def step(name, add=(), delete=()):
    """A ground action of a skill of a user's own."""
    return GroundAction(name, (DRAWER, "robot_0"), frozenset(), frozenset(), frozenset(add),
                        frozenset(delete))  # fmt: skip


def end(source, memory, ended, failure=None, pulled=0.0):
    call = Call(ended.name, DRAWER, "")
    memory.begin(call)
    for x in (0.0, pulled) if pulled else ():
        memory._sim.ee_pos_w = np.array([x, 0.0, 0.7])
        memory.feel(True)
    memory.feel(False)
    source.end(ended, call, failure)


def test_the_home_domain_tells_what_its_skills_make_of_a_handle():
    states = {
        name: handle_state(step(name, [(fact[0], DRAWER) for fact in action.add_effects]))
        for name, action in home_domain().actions.items()
    }
    assert {name: state for name, state in states.items() if state is not None} == {
        "open_cab": "open", "open_fridge": "open", "close_cab": "closed", "close_fridge": "closed",
    }  # fmt: skip


def test_a_skill_that_opens_nothing_leaves_a_drawer_shut(source):
    source, memory = source
    end(source, memory, step("press_button", [("pressed", DRAWER)]))
    assert memory.facts.states[DRAWER] == "closed" and memory.moved(DRAWER) == 0.0
    assert memory.facts.more == {("pressed", DRAWER)}


def test_a_skill_of_any_name_opens_what_its_effects_say(source):
    source, memory = source
    end(source, memory, step("pull_out", [("opened_cab", DRAWER)]), pulled=0.4)
    assert memory.facts.states[DRAWER] == "open"
    end(source, memory, step("shove", [("closed_cab", DRAWER)], [("opened_cab", DRAWER)]))
    assert memory.facts.states[DRAWER] == "closed" and memory.moved(DRAWER) == 0.0
    assert memory.facts.more == set()  # the handle's state is not told twice


@pytest.mark.parametrize("failure", [None, "out of time"])
def test_a_drawer_that_came_along_is_neither_open_nor_shut(source, failure):
    source, memory = source
    end(source, memory, step("press_button", [("pressed", DRAWER)]), failure, pulled=0.2)
    assert memory.facts.states[DRAWER] == "between"


def test_what_a_skill_undoes_is_forgotten_unless_it_failed(source):
    source, memory = source
    on = step("switch_on", [("lit", DRAWER)], [("dark", DRAWER)])
    off = step("switch_off", [("dark", DRAWER)], [("lit", DRAWER)])
    end(source, memory, on)
    assert memory.facts.more == {("lit", DRAWER)}
    end(source, memory, off, "out of time")
    assert memory.facts.more == {("lit", DRAWER)}
    end(source, memory, off)
    assert memory.facts.more == {("dark", DRAWER)}
