"""Plans in execution: bookkeeping, and what happens when a fact is lost on the way."""

import mujoco
import numpy as np
import pytest

from rearrange.planner.agents.chain import ChainProgram, limited
from rearrange.planner.agents.oracle_skills import OracleSkills, pick_pitches
from rearrange.sim.home.furniture import DRAWERS
from rearrange.sim.home.objects import KINDS
from rearrange.sim.simulation import Simulation
from rearrange.skills.definition import SKILLS
from rearrange.skills.motion.robot import Robot
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.rules.predicates import object_at

LIMIT = 4000  # control steps


@pytest.fixture(scope="module")
def sim():
    return Simulation()


def start(sim, task, index):
    episode = generate_episode(task, "val", 0, index)
    sim.reset(episode.scene)
    robot = Robot(sim)
    return episode, ChainProgram(robot, episode, OracleSkills(robot, episode))


def run(sim, chain, watch=lambda: None):
    """Carries the chain out; `watch` is called after every step. What it returned."""
    program = chain.run()
    for _ in range(LIMIT):
        try:
            action = next(program)
        except StopIteration as end:
            return end.value
        assert action.shape == (11,) and np.abs(action).max() <= 1.0
        sim.step(action[:7], action[7], action[8:10])
        watch()
    raise AssertionError(f"not through after {LIMIT} steps: {chain.attempts}")


def put_on_floor(sim, index):
    """An object is taken away to the middle of the widest floor near the robot."""
    plan, (x, y, _) = sim.floor_plan(), sim.base_pose
    island = plan.island(*plan.snap(x, y))
    cells = [c for c in plan.free_cells_near(x, y, 1.2, 2.5) if plan.island(*c) == island]
    spot = max(cells, key=lambda cell: plan.clearance_at(*cell))
    body = int(sim.model.geom_bodyid[sim.object_geom(index)])
    address = int(sim.model.jnt_qposadr[sim.model.body_jntadr[body]])
    sim.data.qpos[address : address + 7] = (
        *spot, sim.object_kind(index).half_height + 0.002, 1, 0, 0, 0,
    )  # fmt: skip
    sim.data.qvel[sim.model.body_dofadr[body] :][:6] = 0.0
    mujoco.mj_forward(sim.model, sim.data)


def test_what_the_plan_does_not_know_of_in_the_hand_is_let_go_first(sim):
    """Such as after a person has played on."""
    episode, chain = start(sim, "set_table", 0)
    targets = {target.object for target in episode.targets}
    other = next(index for index in range(len(episode.scene.objects)) if index not in targets)
    sim.snap_object(other)
    program = chain.run()
    for _ in range(60):
        action = next(program)
        sim.step(action[:7], action[7], action[8:10])
    assert sim.held_object is None and not chain.failures
    program.close()


@pytest.mark.parametrize(("length", "end"), [(9, None), (10, None), (11, "out of time")])
def test_a_program_may_come_to_its_end_with_its_last_step(length, end):
    def program():
        yield from range(length)

    limit = limited(program(), 10)
    with pytest.raises(StopIteration) as over:
        for _ in range(11):
            next(limit)
    assert over.value.value == end


class Once:
    """Calls `act` the first time that `when()` is true."""

    def __init__(self, when, act):
        self.when, self.act, self.is_done = when, act, False

    def __call__(self):
        if not self.is_done and self.when():
            self.is_done = True
            self.act()


@pytest.fixture(scope="module")
def undisturbed(sim):
    """A chain through a whole episode of one object, with a picture of its lines at each step."""
    episode, chain = start(sim, "set_table_easy", 0)
    pictures = []
    failure = run(sim, chain, lambda: pictures.append(chain.plan_lines))
    return episode, chain, failure, pictures, [object_at(sim, t) for t in episode.targets]


def test_the_goals_hold_when_a_chain_returns_none(undisturbed):
    _, chain, failure, _, placed = undisturbed
    assert failure is None
    assert all(placed)
    assert chain.status == "done"


def test_attempts_are_the_skills_in_order(undisturbed):
    _, chain, *_ = undisturbed
    assert chain.attempts == [
        ("navigate", True), ("pick", True), ("navigate", True), ("place", True),
    ]  # fmt: skip


def test_lines_show_what_is_done_what_runs_and_what_comes(undisturbed):
    *_, pictures, _ = undisturbed
    steps = [
        "navigate(bowl_target|0)",
        "pick(bowl_target|0)",
        "navigate(TARGET_bowl_target|0)",
        "place(bowl_target|0, TARGET_bowl_target|0)",
    ]
    for done in range(4):
        ahead = [f"{'>' if i == done else ' '} {s}" for i, s in enumerate(steps) if i >= done]
        assert [f"+ {s}" for s in steps[:done]] + ahead in pictures
    assert pictures[-1] == [f"+ {s}" for s in steps]


def test_every_picture_has_at_most_one_running_line_and_never_fewer_done(undisturbed):
    *_, pictures, _ = undisturbed
    done = [sum(line.startswith("+") for line in lines) for lines in pictures]
    assert done == sorted(done)
    assert all(sum(line.startswith(">") for line in lines) <= 1 for lines in pictures)


def test_an_object_placed_and_taken_away_is_picked_again(sim):
    """Two objects; while the second is fetched, the first vanishes from its goal."""
    episode, chain = start(sim, "tidy_house_easy", 0)
    first, second = episode.targets
    taken = Once(lambda: sim.held_object == second.object, lambda: put_on_floor(sim, first.object))
    assert run(sim, chain, taken) is None
    assert taken.is_done
    assert all(object_at(sim, target) for target in episode.targets)
    assert [name for name, _ in chain.attempts].count("pick") >= 3


@pytest.mark.parametrize(
    ("task", "index"),
    [
        ("set_table_easy", 0),
        ("tidy_house_easy", 1),
        ("tidy_house_easy", 3),
    ],
)
def test_an_object_dropped_on_the_way_is_picked_again(sim, task, index):
    episode, chain = start(sim, task, index)
    first = episode.targets[0]
    steps = [0]

    def has_carried():
        steps[0] += sim.held_object == first.object
        return steps[0] == 120  # control steps: on its way to the goal

    dropped = Once(has_carried, sim.drop)
    assert run(sim, chain, dropped) is None
    assert dropped.is_done
    assert all(object_at(sim, target) for target in episode.targets)
    picks = [worked for name, worked in chain.attempts if name == "pick"]
    assert len(picks) >= len(episode.targets) + 1
    assert ("place", False) not in chain.attempts  # it looks before it acts with an empty hand


def test_an_object_that_jumps_away_before_it_is_reached_is_fetched_where_it_is(sim):
    episode, chain = start(sim, "tidy_house_easy", 1)
    first = episode.targets[0]
    steps = [0]

    def later():
        steps[0] += 1
        return steps[0] == 60

    assert run(sim, chain, Once(later, lambda: put_on_floor(sim, first.object))) is None
    assert all(object_at(sim, target) for target in episode.targets)


def test_what_belongs_into_something_shut_is_put_down_to_open_it(sim):
    """With it in the hand there is no plan: it can go nowhere else, and opening needs the hand."""
    episode, chain = start(sim, "rearrange_easy", 31)
    (target,) = episode.targets
    assert target.goal_container and not target.start_container
    sim.data.joint(target.goal_container).qpos[0] = 0.0  # it has fallen shut
    sim.snap_object(target.object)
    assert run(sim, chain) is None and object_at(sim, target)
    assert chain.failures[0] == "no plan with what is held"
    opened = f"open_{'drawer' if target.goal_container in DRAWERS else 'fridge'}"
    assert [name for name, _ in chain.attempts[:2]] == ["navigate", opened]


def test_a_chain_whose_goals_hold_already_only_waits(sim):
    episode, chain = start(sim, "set_table_easy", 0)
    target = episode.targets[0]
    body = int(sim.model.geom_bodyid[sim.object_geom(target.object)])
    address = int(sim.model.jnt_qposadr[sim.model.body_jntadr[body]])
    sim.data.qpos[address : address + 3] = target.goal
    mujoco.mj_forward(sim.model, sim.data)
    x, y, _ = sim.base_pose
    assert run(sim, chain) is None
    assert chain.attempts == []
    assert np.hypot(sim.base_pose[0] - x, sim.base_pose[1] - y) < 0.01


def test_an_object_out_of_reach_makes_the_chain_give_up(sim):
    """It hangs on top of the fridge, 1.9 m up: the chain says which skill failed, and ends."""
    episode, chain = start(sim, "tidy_house_easy", 0)
    target = episode.targets[0]
    x, y, _ = sim.layout.pieces["fridge"]
    body = int(sim.model.geom_bodyid[sim.object_geom(target.object)])
    address = int(sim.model.jnt_qposadr[sim.model.body_jntadr[body]])
    sim.data.qpos[address : address + 3] = (x, y, 1.84 + 0.15)
    mujoco.mj_forward(sim.model, sim.data)
    program = chain.run()
    failure, steps = "running", 0
    while failure == "running" and steps < 12_000:
        try:
            action = next(program)
        except StopIteration as end:
            failure = end.value
            break
        sim.step(action[:7], action[7], action[8:10])
        steps += 1
    assert failure not in (None, "running")
    assert failure.split("(")[0] in SKILLS
    assert ("pick", False) in chain.attempts


def test_attempts_name_skills_as_they_are_trained(sim):
    """open_cab and open_fridge of the plan are the skills open_drawer and open_fridge."""
    episode, chain = start(sim, "set_table", 0)
    program = chain.run()
    for _ in range(700):
        action = next(program)
        sim.step(action[:7], action[7], action[8:10])
        if len(chain.attempts) >= 2:
            break
    assert [name for name, _ in chain.attempts[:2]] == ["navigate", "open_drawer"]
    assert {name for name, _ in chain.attempts} <= set(SKILLS)


def test_a_chain_is_the_same_twice(sim):
    def end():
        _, chain = start(sim, "set_table_easy", 1)
        run(sim, chain)
        return sim.data.qpos.copy()

    assert np.array_equal(end(), end())


def test_into_the_fridge_the_hand_goes_level(sim):
    """Pitch is measured from straight down: a quarter turn is level."""
    episode = generate_episode("prepare_groceries", "val", 0, 0)
    inside = episode.targets[0]
    kind = KINDS[episode.scene.objects[inside.object].kind]
    level = pick_pitches(kind, inside, np.array(inside.start))
    from_table = pick_pitches(kind, inside, np.array(inside.goal))
    assert min(level) > 0.6
    assert min(from_table) < 0.1 or inside.goal[2] + kind.half_height > 0.97
