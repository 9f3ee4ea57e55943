"""Time-outs, replanning or not, and giving up: a chain over skills that only pretend."""

import mujoco
import numpy as np
import pytest

from rearrange.planner.agents.chain import NOT_DONE, OUT_OF_TIME, ChainProgram
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.home.facts import goal_name, read_facts
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.robot import Robot
from rearrange.tasks.episodes.generate import generate_episode

LIMIT = 5  # control steps of every pretended skill


class Pretender:
    """Skills that do `deeds[skill]()`, last `lengths[skill]` steps and always say it went well."""

    def __init__(self, deeds=(), lengths=(), skipped=()):
        self.deeds, self.lengths, self.skipped = dict(deeds), dict(lengths), frozenset(skipped)
        self.calls, self.recoveries = [], []

    def limit(self, skill):
        return LIMIT

    def prepare(self, call):
        yield np.zeros(11, np.float32)

    def program(self, call, following):
        self.calls.append(call.line)
        for _ in range(self.lengths.get(call.skill, 2)):
            yield np.zeros(11, np.float32)
        self.deeds.get(call.skill, lambda call: None)(call)
        return None

    def recover(self, call, failures):
        self.recoveries.append((call.skill, failures))
        return None
        yield

    def leaves_place(self, call):
        return False


@pytest.fixture(scope="module")
def sim():
    return Simulation()


@pytest.fixture
def world(sim):
    """A house of two objects, and deeds that bring about what each skill is for."""
    episode = generate_episode("tidy_house_easy", "val", 0, 0)
    sim.reset(episode.scene)

    def stand_at(call):
        place = np.array(call_place(call))
        held = sim.held_object  # it would be left behind
        sim.set_robot((place[0], place[1], 0.0), sim.arm_qpos)
        if held is not None:
            sim.snap_object(held)

    def call_place(call):
        target = next(t for t in episode.targets if t.name == call.target)
        return target.goal if call.is_at_goal else sim.object_pos_w(target.object)

    def pick(call):
        sim.snap_object(next(t for t in episode.targets if t.name == call.target).object)

    def place(call):
        target = next(t for t in episode.targets if t.name == call.target)
        sim.drop()
        body = int(sim.model.geom_bodyid[sim.object_geom(target.object)])
        address = int(sim.model.jnt_qposadr[sim.model.body_jntadr[body]])
        sim.data.qpos[address : address + 3] = target.goal
        mujoco.mj_forward(sim.model, sim.data)

    return sim, episode, {"navigate": stand_at, "pick": pick, "place": place}


def chain_of(world, skills, **options):
    sim, episode, _ = world
    return ChainProgram(Robot(sim), episode, skills, ChainCfg(**options))


def run(chain):
    """What the chain returns and how many steps it took; the world stands still meanwhile."""
    steps = 0
    program = chain.run()
    while True:
        try:
            next(program)
        except StopIteration as end:
            return end.value, steps
        steps += 1
        assert steps < 1000


def test_steps_that_do_what_they_are_for_lead_to_the_end(world):
    skills = Pretender(world[2])
    chain = chain_of(world, skills)
    failure, steps = run(chain)
    assert failure is None and chain.status == "done" and chain.failures == []
    assert [name for name, _ in chain.attempts] == 2 * ["navigate", "pick", "navigate", "place"]
    assert steps == 8 * 3 + 10  # one to prepare and two of the skill; the last look waits ten


def test_a_skill_out_of_time_is_counted_and_the_chain_plans_again(world):
    skills = Pretender(world[2], lengths={"pick": 100})
    chain = chain_of(world, skills, max_failures=3)
    failure, steps = run(chain)
    assert failure == f"pick(any_targets|0): {OUT_OF_TIME}"
    assert chain.failures == 3 * [failure]
    # The robot still stands at the object: the new plan begins with the pick.
    assert chain.attempts == [("navigate", True), *3 * [("pick", False)]]
    assert skills.recoveries == [("pick", 1), ("pick", 2)]
    assert steps == 3 + 3 * (1 + LIMIT)


def test_one_failure_ends_the_episode_as_in_habitat(world):
    skills = Pretender(world[2], lengths={"pick": 100})
    for options in ({"looks": "none"}, {"looks": "privileged", "max_failures": 1}):
        chain = chain_of(world, skills, **options)
        assert run(chain)[0] == f"pick(any_targets|0): {OUT_OF_TIME}"
        assert chain.plan_lines[1] == "> pick(any_targets|0)"


@pytest.mark.parametrize("looks, failures", [("none", 1), ("own", 20), ("privileged", 20)])
def test_only_a_chain_that_looks_tries_again(looks, failures):
    assert ChainCfg(looks=looks).most_failures == failures


def test_a_skill_that_ends_without_its_effect_has_failed(world):
    """Endless attempts that take no time at all are bounded as well."""
    skills = Pretender(world[2] | {"pick": lambda call: None}, lengths={"pick": 0})
    chain = chain_of(world, skills, max_failures=4)
    assert run(chain)[0] == f"pick(any_targets|0): {NOT_DONE}"
    assert chain.attempts.count(("pick", False)) == 4


def test_without_replanning_the_first_plan_is_carried_out_whatever_happens(world):
    """What went wrong unnoticed stands in the label; what ran out of time is left behind."""
    skills = Pretender(world[2] | {"pick": lambda call: None}, lengths={"place": 100})
    chain = chain_of(world, skills, looks="none", max_failures=8)
    failure, _ = run(chain)
    assert failure == chain.failures[0] == f"pick(any_targets|0): {NOT_DONE}"
    assert len(skills.calls) == 8 and skills.recoveries == []
    marks = [line[0] for line in chain.plan_lines]
    assert marks == ["+", "+", "+", "x"] * 2


def test_without_replanning_the_plan_of_a_good_day_succeeds(world):
    chain = chain_of(world, Pretender(world[2]), looks="none")
    assert run(chain)[0] is None and chain.failures == []
    assert all(line.startswith("+") for line in chain.plan_lines)


def test_steps_of_skipped_skills_count_as_done_and_are_not_attempts(world):
    skills = Pretender(world[2], skipped=["navigate"])
    chain = chain_of(world, skills)
    failure, steps = run(chain)
    assert failure is None
    assert [name for name, _ in chain.attempts] == 2 * ["pick", "place"]
    assert all(not line.startswith("navigate") for line in skills.calls)
    assert len(chain.plan_lines) == 8 and steps == 4 * 3 + 10


def test_navigate_has_worked_when_the_robot_is_within_two_metres(world):
    """Judged where the object is, not where the skill believes it to be."""
    sim, episode, deeds = world
    x, y, _ = sim.object_pos_w(episode.targets[0].object)

    def stop_short(call):
        sim.set_robot((x + 2.1, y, 0.0), sim.arm_qpos)

    chain = chain_of(world, Pretender(deeds | {"navigate": stop_short}), max_failures=1)
    assert run(chain)[0] == f"navigate(any_targets|0): {NOT_DONE}"


class StoredRollout:
    """Facts as a robot may have them wrong: it believes that all went well."""

    def __init__(self, facts, goals):
        self.known, self.goals, self.ended = facts, goals, []

    def facts(self):
        return self.known

    def is_at(self, entity):
        return True

    def end(self, step, call, failure):
        self.ended.append((call.skill, failure))
        if failure is None and call.skill == "pick":
            self.known.held = call.target
        if failure is None and call.skill == "place":
            self.known.held = None
            self.known.placed[call.target] = self.goals[call.target]


def test_by_its_own_memory_a_chain_believes_what_it_did_and_the_report_does_not(world):
    """Pick and Place do nothing: the memory takes them as done, the label does not."""
    sim, episode, deeds = world
    skills = Pretender({"navigate": deeds["navigate"]}, lengths={})
    goals = {target.name: goal_name(target.name) for target in episode.targets}
    memory = StoredRollout(read_facts(sim, episode), goals)
    cfg = ChainCfg(looks="own", max_failures=2)
    chain = ChainProgram(Robot(sim), episode, skills, cfg, memory)
    assert run(chain)[0] is None and chain.status == "done"
    assert len(skills.calls) == 8 and skills.recoveries == []
    assert [worked for skill, worked in chain.attempts if skill != "navigate"] == 4 * [False]
    assert memory.ended == 2 * [(n, None) for n in ("navigate", "pick", "navigate", "place")]


def test_what_its_own_memory_tells_of_a_failure_is_tried_again(world):
    """A Pick that is out of time is not in the memory as done, though its object is in the hand."""
    sim, episode, deeds = world
    skills = Pretender({"navigate": deeds["navigate"]}, lengths={"pick": 100})
    goals = {target.name: goal_name(target.name) for target in episode.targets}
    memory = StoredRollout(read_facts(sim, episode), goals)
    chain = ChainProgram(Robot(sim), episode, skills, ChainCfg(looks="own", max_failures=3), memory)
    assert run(chain)[0] == f"pick(any_targets|0): {OUT_OF_TIME}"
    assert skills.recoveries == [("pick", 1), ("pick", 2)]
