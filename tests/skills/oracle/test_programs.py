"""The oracle's skills in the world, one episode for each kind of place."""

import math

import numpy as np
import pytest

from rearrange.planner.agents.registry import make_agent
from rearrange.sim.home.objects import KINDS
from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle import doors as oracle_doors
from rearrange.skills.oracle import objects as oracle_objects
from rearrange.skills.oracle.objects import pick, surface_distance
from rearrange.skills.oracle.place import half_extent, place
from rearrange.skills.oracle.programs import skill_program
from rearrange.skills.skill import ACTION_SIZE, STOP, ProgramSkill
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.registry import make_env

# val episodes of Pick and Place by where the object is, or has to go.
PICKS = {
    "counter": 1, "fridge": 5, "drawer": 3, "table": 4, "sofa": 6, "left drawer": 7, "chair": 10,
    "sink": 19, "a sponge on the table": 22,
}  # fmt: skip
PLACES = {
    "sink": 21, "fridge": 1, "tv stand": 2, "chair": 4, "side table": 5, "counter": 13, "sofa": 10,
    "table": 16,
}  # fmt: skip
NAVIGATIONS = (0, 1, 4, 6, 7)  # 7 starts with the object in hand
SECOND = 30  # control steps


@pytest.fixture(scope="module")
def sim():
    return Simulation()


def start(sim, task, index):
    episode = generate_episode(task, "val", 0, index)
    sim.reset(episode.scene)
    target = episode.targets[episode.target_index]
    if episode.start_holding:
        sim.snap_object(target.object)
    return episode, target


def carry_out(sim, program, limit=1000):
    """What the program returns, its actions checked and applied."""
    for _ in range(limit):
        try:
            action = next(program)
        except StopIteration as end:
            return end.value
        assert action.shape == (ACTION_SIZE,)
        assert np.abs(action).max() <= 1.0  # also: no NaN
        sim.step(action[:7], action[7], action[8:10])
    raise AssertionError(f"not through after {limit} steps")


def wait(sim, steps):
    for _ in range(steps):
        sim.step(np.zeros(7), None, (0.0, 0.0))


def wake(sim, index):
    """What sleeps has no contacts."""
    body = sim.model.geom_bodyid[sim.object_geom(index)]
    sim.data.qvel[sim.model.body_dofadr[body]] = 1e-6


def to_rest(sim):
    return float(np.linalg.norm(sim.ee_pos_b - fetch.EE_REST_B))


@pytest.mark.parametrize("index", PICKS.values(), ids=PICKS)
def test_pick_brings_the_right_object_to_rest_and_leaves_the_others_where_they_were(sim, index):
    episode, target = start(sim, "pick", index)
    others = [i for i in range(sim.num_objects) if i != target.object]
    before = [sim.object_pos_w(i) for i in others]
    assert carry_out(sim, skill_program(Robot(sim), episode)) is None
    assert sim.held_object == target.object
    assert to_rest(sim) < 0.15
    for i, position in zip(others, before, strict=True):
        assert np.linalg.norm(sim.object_pos_w(i) - position) < 0.1


@pytest.mark.parametrize("index", PLACES.values(), ids=PLACES)
def test_a_placed_object_lies_at_its_goal_and_stays_on_something(sim, index):
    """MuJoCo finds a contact below the object's centre, and none with the robot."""
    episode, target = start(sim, "place", index)
    assert carry_out(sim, skill_program(Robot(sim), episode)) is None
    assert sim.held_object is None
    assert to_rest(sim) < 0.15
    there = sim.object_pos_w(target.object)
    assert np.linalg.norm(there - target.goal) < 0.15
    wait(sim, SECOND)
    assert np.linalg.norm(sim.object_pos_w(target.object) - there) < 0.01
    wake(sim, target.object)
    wait(sim, 1)
    geom, robot = sim.object_geom(target.object), sim.model.body("base_link").id
    touching = [c for c in sim.data.contact if geom in c.geom]
    assert any(c.pos[2] < sim.object_pos_w(target.object)[2] for c in touching)
    for contact in touching:
        assert robot not in sim.model.body_rootid[sim.model.geom_bodyid[contact.geom]]


@pytest.mark.parametrize("index", NAVIGATIONS)
def test_navigate_ends_near_its_goal_and_faces_it(sim, index):
    """The task's own bars, 1.5 m and 15 degrees, by hand."""
    episode, target = start(sim, "navigate", index)
    goal = target.goal if episode.start_holding else target.start
    assert carry_out(sim, skill_program(Robot(sim), episode)) is None
    x, y, yaw = sim.base_pose
    assert math.hypot(goal[0] - x, goal[1] - y) < 1.5
    off = math.atan2(goal[1] - y, goal[0] - x) - yaw
    assert abs((off + math.pi) % (2 * math.pi) - math.pi) < math.radians(15)


def test_navigate_keeps_what_it_holds(sim):
    episode, target = start(sim, "navigate", 7)
    assert episode.start_holding
    carry_out(sim, skill_program(Robot(sim), episode))
    assert sim.held_object == target.object


@pytest.mark.parametrize("task", ["navigate", "pick", "place"])
def test_the_robot_drives_without_hitting_anything(sim, task):
    """Force accumulates on contact with robot or load; picking touches its object gently."""
    for index in range(3):
        episode, _ = start(sim, task, index)
        carry_out(sim, skill_program(Robot(sim), episode))
        assert sim.collisions["robot_scene"] == 0
        assert sim.force_accum < 1500.0  # N; the task ends an episode at 5000


def test_a_program_is_the_same_twice(sim):
    def actions():
        episode, _ = start(sim, "pick", 4)
        program, all_actions = skill_program(Robot(sim), episode), []
        for action in program:
            all_actions.append(action.copy())
            sim.step(action[:7], action[7], action[8:10])
        return np.array(all_actions)

    assert np.array_equal(actions(), actions())


def test_placing_with_an_empty_hand_fails_at_once(sim):
    _, target = start(sim, "pick", 4)
    assert carry_out(sim, place(Robot(sim), target.object, np.array(target.goal))) == "object lost"


def test_picking_what_is_held_already_only_brings_the_hand_to_rest(sim):
    _, target = start(sim, "place", 16)
    assert carry_out(sim, pick(Robot(sim), target.object)) is None
    assert sim.held_object == target.object
    assert to_rest(sim) < 0.15


def test_an_object_dropped_on_the_way_to_its_goal_fails_the_place(sim):
    """Nothing may be reported as placed that was lost."""
    episode, target = start(sim, "place", 16)
    program = skill_program(Robot(sim), episode)
    for _ in range(20):
        action = next(program)
        sim.step(action[:7], action[7], action[8:10])
    sim.drop()
    failure = carry_out(sim, program)
    assert np.linalg.norm(sim.object_pos_w(target.object) - target.goal) > 0.3
    assert failure is not None


@pytest.mark.parametrize("task", ["open_drawer", "pick", "place", "navigate"])
def test_the_oracle_solves_an_episode_of_the_environment(task):
    """By the task's own judgement, stop and delayed observations included."""
    check_solved(task, 0, "hab")


@pytest.mark.parametrize("index", [1, 2, 13])
def test_the_oracle_places_in_narrow_fridges_and_tall_things_on_counters(index):
    """What once failed in procedural homes.

    A base 1.6 cm and 1.6 degrees off before a fridge with no room to spare; an arm that set out
    before the base had backed off; a cracker box that is let go aslant and falls over.
    """
    check_solved("place", index, "procedural")


def check_solved(task, index, homes):
    env = make_env(task, "val", depth=False, homes=homes)
    agent = make_agent("oracle", env)
    observation, info = env.reset(options={"index": index})
    agent.reset(observation, info)
    is_over = False
    while not is_over:
        action = agent.act(observation, info)
        assert env.action_space.contains(action)
        observation, _, terminated, truncated, info = env.step(action)
        is_over = terminated or truncated
    assert info["success"]
    assert agent.failure is None
    assert agent.attempts == [(task, True)]
    env.close()


def test_only_single_skills_have_a_program(sim):
    episode = generate_episode("tidy_house", "val", 0, 0)
    with pytest.raises(ValueError, match="tidy_house"):
        skill_program(Robot(sim), episode)


# --- skill.py ----------------------------------------------------------------------------------


def countdown(steps, reason=None):
    """A program of so many steps; its actions are numbered."""
    for i in range(steps):
        yield np.full(ACTION_SIZE, i / 10, np.float32)
    return reason


def test_a_program_skill_gives_the_programs_actions_then_stop():
    skill = ProgramSkill("pick", countdown(2))
    firsts = [float(skill.act({})[0]) for _ in range(2)]
    stop = skill.act({})
    assert firsts == pytest.approx([0.0, 0.1])
    assert stop[STOP] == 1.0 and not stop[:STOP].any()


def test_a_program_skill_is_done_with_the_programs_reason():
    skill = ProgramSkill("pick", countdown(1, "no reach"))
    assert not skill.is_done and skill.failure is None
    skill.act({})
    assert not skill.prepare()
    assert skill.is_done and skill.failure == "no reach"


def test_preparing_loses_no_action():
    skill = ProgramSkill("pick", countdown(2))
    assert skill.prepare() and skill.prepare()
    assert float(skill.act({})[0]) == 0.0


def test_a_program_without_a_step_is_done_at_once():
    assert ProgramSkill("pick", countdown(0)).is_done


# --- geometry of objects -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["box", "cylinder", "sphere"])
def test_surface_and_extent_agree_with_points_on_the_surface(shape):
    """Against a cloud of points inside the shape: the farthest along u, the last on a ray."""
    kind = next(kind for kind in KINDS.values() if kind.shape == shape)
    rng = np.random.default_rng(0)
    points = rng.uniform(-1.0, 1.0, (200_000, 3))
    a, b, c = kind.size
    if shape == "box":
        points *= kind.size
        inside = lambda p: (np.abs(p) <= np.array(kind.size) + 1e-9).all(axis=-1)  # noqa: E731
    elif shape == "cylinder":
        points *= (a, a, b)
        inside = lambda p: (np.hypot(p[..., 0], p[..., 1]) <= a) & (np.abs(p[..., 2]) <= b)  # noqa: E731
    else:
        points *= a
        inside = lambda p: np.linalg.norm(p, axis=-1) <= a  # noqa: E731
    points = points[inside(points)]
    for direction in rng.normal(size=(5, 3)):
        u = direction / np.linalg.norm(direction)
        assert half_extent(kind, u) == pytest.approx((points @ u).max(), rel=0.05)
        ray = np.linspace(0.0, 0.5, 50_001)[:, None] * u
        last = np.linalg.norm(ray[inside(ray)], axis=1).max()
        assert surface_distance(kind, u) == pytest.approx(last, abs=1e-4)


@pytest.mark.parametrize("module", [oracle_objects, oracle_doors])
def test_a_grip_that_is_cut_off_leaves_no_suction_wanted(sim, module, monkeypatch):
    """A time limit closes the program in the middle of reaching out."""
    start(sim, "pick", 0)
    robot = Robot(sim)
    way = np.array([sim.arm_target, sim.arm_target + 0.2])
    monkeypatch.setattr(module, "final_corners", lambda robot, reach: way)
    grip = module._touch if module is oracle_objects else module._grip_handle
    program = grip(robot, None, 0)
    next(program)
    assert robot.grip_wanted and robot.action()[7] == 1.0
    program.close()
    assert not robot.grip_wanted and robot.action()[7] == -1.0
