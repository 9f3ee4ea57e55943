"""What the robot remembers, against what is: by hands that move in the real home."""

import numpy as np
import pytest

from rearrange.planner.agents.memory import FLOOR, Memory
from rearrange.planner.home.calls import Call
from rearrange.planner.home.facts import goal_name, read_facts
from rearrange.sim.home.furniture import DRAWERS
from rearrange.skills.deployed.recovery import back_out
from rearrange.skills.motion.retreat import let_go
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle.doors import open_container
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.predicates import CLOSED


@pytest.fixture(scope="module")
def env():
    return make_env("set_table", "val", depth=False, observation_delay=0)


@pytest.fixture
def memory(env):
    env.reset(options={"index": 0})
    return Memory(env.sim, env.episode, read_facts(env.sim, env.episode))


def carry_out(env, memory, program):
    """The oracle does it; the memory feels each control step."""
    for action in program:
        env.step(action)
        memory.feel(env.sim.is_holding)


@pytest.mark.parametrize(
    ("skill", "marker", "joint"),
    [
        ("open_drawer", "cab_push_point_5", "drawer_right_top"),
        ("open_fridge", "fridge_push_point", "fridge_top_door"),
    ],
)
def test_what_the_robot_opens_is_open(env, memory, skill, marker, joint):
    before, call = memory.facts.states[marker], Call(skill, marker, "")
    handle = env.sim.marker_pos_w(marker)
    memory.begin(call)
    carry_out(env, memory, open_container(Robot(env.sim), marker))
    memory.end(call, None, "open")
    assert before == "closed" and env.sim.joint_position(joint) > 0.3
    assert memory.facts == read_facts(env.sim, env.episode)
    way = np.linalg.norm((env.sim.marker_pos_w(marker) - handle)[:2])
    if joint in DRAWERS:  # the hand pivots, the drawer coasts
        assert memory.moved(marker) == pytest.approx(way, rel=0.2)
    else:  # of the fridge only whether it has moved counts: a hand that grips again adds up
        assert memory.moved(marker) > CLOSED


def test_a_drawer_that_opened_without_suction_is_as_far_out_as_the_skill_pulls(env, memory):
    """An arm behind the handle takes it along. The hand feels nothing; the skill says stop."""
    call, sim = Call("open_drawer", "cab_push_point_5", ""), env.sim
    carry_out(env, memory, open_container(Robot(sim), "cab_push_point_5"))  # nobody's doing
    memory = Memory(sim, env.episode, memory.facts)
    assert memory.facts.states["cab_push_point_5"] == "closed"
    memory.begin(call)
    memory.end(call, None, "open")
    assert memory.facts.states["cab_push_point_5"] == "open"
    moved = sim.object_pos_w(env.episode.targets[0].object) - env.episode.targets[0].start
    np.testing.assert_allclose(
        memory.offset(0), moved, atol=0.1
    )  # 0.45 of at most 0.5 m, and it slides


def test_a_handle_that_is_dragged_along_after_its_skill_is_felt_too(env, memory):
    """The skill is cut off with the handle in hand, and the robot backs off with it."""
    marker, joint, sim = "cab_push_point_5", "drawer_right_top", env.sim
    robot, call = Robot(sim), Call("open_drawer", "cab_push_point_5", "")
    memory.begin(call)
    for action in open_container(robot, marker):
        env.step(action)
        memory.feel(sim.is_holding)
        if sim.is_holding and sim.joint_position(joint) > 0.06:
            break
    assert sim.held_marker == marker
    memory.end(call, "out of time", "open")
    known = memory.moved(marker)
    memory.begin(None)
    carry_out(env, memory, back_out(robot))
    carry_out(env, memory, let_go(robot))
    assert sim.joint_position(joint) > known + 0.1
    assert memory.facts.states[marker] == "between"
    moved = sim.object_pos_w(env.episode.targets[0].object) - env.episode.targets[0].start
    np.testing.assert_allclose(memory.offset(0)[:2], moved[:2], atol=0.08)  # it slides
    memory.begin(Call("navigate", marker, ""))
    carry_out(env, memory, iter([robot.action()]))
    assert memory.facts.states[marker] == "between"


def test_what_lies_in_a_drawer_that_the_hand_pulls_comes_along(env, memory):
    target, start = env.episode.targets[0], env.sim.object_pos_w(env.episode.targets[0].object)
    assert target.start_container == "drawer_right_top"
    memory.begin(Call("open_drawer", "cab_push_point_5", ""))
    carry_out(env, memory, open_container(Robot(env.sim), "cab_push_point_5"))
    moved = env.sim.object_pos_w(target.object) - start
    np.testing.assert_allclose(memory.offset(0), moved, atol=0.06)  # it coasts a little
    assert not memory.offset(1).any()


class Hand:
    """A simulator of which only the hand is there."""

    def __init__(self):
        self.ee_pos_w = np.zeros(3)

    def joint_position(self, joint):
        return 0.0

    @property
    def data(self):
        return self

    def joint(self, name):
        return self

    xaxis = (0.0, 1.0, 0.0)
    held_object = None

    def object_pos_w(self, index):
        return self.starts[index]


@pytest.fixture
def felt(env):
    """A memory whose hand goes where it is put."""
    env.reset(options={"index": 0})
    hand = Hand()
    hand.starts = {target.object: target.start for target in env.episode.targets}
    return hand, Memory(hand, env.episode, read_facts(env.sim, env.episode)), env.episode.targets


def picked(memory, name):
    memory.begin(Call("pick", name, ""))
    memory.feel(True)


def test_what_was_picked_is_held_and_in_no_container(felt):
    _, memory, (first, *_) = felt
    assert memory.facts.containers[first.name] == "cab_push_point_5"
    picked(memory, first.name)
    assert memory.facts.held == first.name and memory.facts.containers[first.name] is None


@pytest.mark.parametrize(("away", "lies_there"), [(0.1, True), (0.29, True), (0.31, False)])
def test_what_is_let_go_at_a_goal_lies_there(felt, away, lies_there):
    hand, memory, (first, *_) = felt
    picked(memory, first.name)
    memory.begin(Call("place", first.name, ""))
    hand.ee_pos_w = np.array(first.goal) + (away, 0.0, 0.2)
    memory.feel(False)
    assert memory.facts.held is None
    there = {first.name: goal_name(first.name)} if lies_there else {}
    assert memory.facts.placed == there
    believed = np.array(first.start) + memory.offset(0)
    np.testing.assert_allclose(believed, np.array(first.goal) + (away, 0.0, 0.0), atol=1e-9)
    picked(memory, first.name)  # and taken from there
    assert memory.facts.placed == {} and memory.facts.held == first.name


def test_what_is_lost_on_the_way_lies_on_the_floor_below(felt):
    hand, memory, (first, *_) = felt
    picked(memory, first.name)
    memory.begin(Call("navigate", goal_name(first.name), ""))
    hand.ee_pos_w = np.array([1.0, -2.0, 0.9])
    memory.feel(False)
    assert memory.facts.held is None and memory.facts.placed == {}
    believed = np.array(first.start) + memory.offset(0)
    np.testing.assert_allclose(believed, [1.0, -2.0, FLOOR], atol=1e-9)


def test_a_handle_let_go_and_taken_again_goes_on_from_where_it_was_left(felt):
    hand, memory, _ = felt
    call = Call("open_drawer", "cab_push_point_5", "")
    memory.begin(call)
    for x in (0.0, 0.1, 0.2):
        hand.ee_pos_w = np.array([x, 0.0, 0.7])
        memory.feel(True)
    memory.feel(False)
    memory.end(call, "out of time")
    assert memory.facts.states["cab_push_point_5"] == "between"
    for x in (0.5, 0.6, 0.7):  # a grasp elsewhere on it
        hand.ee_pos_w = np.array([x, 0.0, 0.7])
        memory.feel(True)
    memory.end(call, None, "open")
    assert memory.moved("cab_push_point_5") == pytest.approx(0.4)
    np.testing.assert_allclose(memory.offset(0), [0.4, 0.0, 0.0], atol=1e-9)
    assert memory.facts.states["cab_push_point_5"] == "open"


def test_a_drawer_is_never_further_out_than_it_can_be(felt):
    """It was pushed in unnoticed between two pulls, which therefore add up to more."""
    hand, memory, _ = felt
    memory.begin(Call("open_drawer", "cab_push_point_5", ""))
    for _pull in range(2):
        for x in (0.0, 0.4):
            hand.ee_pos_w = np.array([x, 0.0, 0.7])
            memory.feel(True)
        memory.feel(False)
    assert memory.moved("cab_push_point_5") == pytest.approx(0.8)
    np.testing.assert_allclose(memory.offset(0), [0.5, 0.0, 0.0], atol=1e-9)


@pytest.mark.parametrize(
    ("last", "out"),
    [
        (0.315, 0.31),  # at rest: it stays
        (0.335, 0.5),  # at 0.75 m/s: it runs on to its stop
        (0.285, 0.31),  # the hand has turned back
    ],
)
def test_a_drawer_let_go_at_speed_runs_on_to_its_stop(felt, last, out):
    hand, memory, _ = felt
    memory.begin(Call("open_drawer", "cab_push_point_5", ""))
    for y in (0.0, 0.3, 0.31):
        hand.ee_pos_w = np.array([0.0, y, 0.7])
        memory.feel(True)
    hand.ee_pos_w = np.array([0.0, last, 0.7])
    memory.feel(False)
    np.testing.assert_allclose(memory.offset(0), [0.0, out, 0.0], atol=1e-9)


def test_an_open_container_is_doubted_after_two_failures_until_it_is_opened_again(felt):
    """What pushes a drawer or door shut is not felt."""
    _, memory, targets = felt
    states, name = memory.facts.states, targets[0].name
    drawer = memory.facts.containers[name]
    miss = Call("pick", name, name)
    memory.end(miss, "stuck")
    memory.end(miss, "stuck")
    assert states[drawer] == "closed"  # it never was open
    for failure, after in ((None, "open"), ("out of time", "open")):
        states[drawer] = "open"
        memory.end(miss, "stuck")
        assert states[drawer] == "open"
        memory.end(miss, "out of time")
        assert states[drawer] == "between"
        memory.end(Call("open_drawer", drawer, ""), failure, "open")
        assert states[drawer] == after
    elsewhere = targets[1].name  # a goal on the table
    for _ in range(4):
        memory.end(Call("place", goal_name(elsewhere), elsewhere, elsewhere), "stuck")
    assert states[drawer] == "open"


def test_a_handle_let_go_of_what_is_believed_shut_says_nothing(felt):
    """A skill of one's own may shut it by its handle, and end with that in the hand."""
    hand, memory, _ = felt
    memory.begin(Call("close_drawer", "cab_push_point_5", ""))
    for y in (0.0, -0.03):
        hand.ee_pos_w = np.array([0.0, y, 0.7])
        memory.feel(True)
    memory.end(Call("close_drawer", "cab_push_point_5", ""), None, "closed")
    memory.begin(None)
    memory.feel(False)
    assert memory.facts.states["cab_push_point_5"] == "closed" and not memory.offset(0).any()


def test_a_skill_of_ones_own_may_grip_an_object_and_let_it_go(felt):
    hand, memory, (first, *_) = felt
    before = dict(memory.facts.states)
    call = Call("wipe", first.name, "")
    memory.begin(call)
    for y in (0.0, 0.3):
        hand.ee_pos_w = np.array([0.0, y, 0.7])
        memory.feel(True)
    memory.feel(False)
    memory.end(call, None)
    assert memory.facts.states == before and memory.facts.held is None
    assert not memory.offset(0).any()
