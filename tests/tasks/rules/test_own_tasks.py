"""Mistakes in somebody's own task or skill: each gives one line that says what must hold."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.planner.agents.registry import make_agent
from rearrange.skills.definition import SKILLS, SkillDefinition
from rearrange.tasks.episodes.generate import PICK, generate_episode
from rearrange.tasks.observations import Sensors
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.definition import TASKS, TaskDefinition
from rearrange.tasks.rules.rulebook import make_task
from rearrange.tasks.rules.task import Rules, Task

RULES = Rules(max_episode_steps=10)


class Whole(Task):
    def __init__(self, name, sensors=("joint",)):
        super().__init__(name, RULES, sensors)

    def start(self, sim, episode): ...
    def progress(self, sim):
        return 0.0

    def is_goal_reached(self, sim):
        return False


class WithoutGoal(Whole):
    is_goal_reached = Task.is_goal_reached


class WithoutSuper(Whole):
    def __init__(self, name): ...


@pytest.fixture
def add(monkeypatch):
    """Adds a task of these rules for one test."""
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))

    def add_task(rules, episodes=PICK):
        TASKS.add(
            "mine",
            TaskDefinition(
                name="mine", env_id="mine/Mine-v0", title="", rules=rules, episodes=episodes
            ),
        )

    return add_task


@pytest.mark.parametrize(
    "rules, message",
    [
        (WithoutGoal, "WithoutGoal, the rules of task 'mine', has no method is_goal_reached"),
        (WithoutSuper, "WithoutSuper.__init__ must call that of Task"),
        (dict.fromkeys, "the rules of task 'mine' must return a Task, got dict"),
        ("colorsys:Whole", "colorsys has no 'Whole'"),
    ],
)
def test_rules_have_to_be_a_whole_task(add, rules, message):
    add(rules)
    with pytest.raises(UserError, match=message):
        make_task("mine")


def test_whole_rules_are_taken(add):
    add(Whole)
    assert make_task("mine").name == "mine"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"num_targets": 2}, "mine has 2 targets, got 1"),
        ({"num_markers": 1}, "an episode of mine must name its marker, got none"),
    ],
)
def test_episodes_have_what_their_task_reads(add, numbers, message):
    class Reads(Whole):
        def __init__(self, name):
            Task.__init__(self, name, RULES, ("joint",), **numbers)

    add(Reads)
    env = make_env("mine", "val", depth=False)
    for options in (None, {"index": 3}):
        with pytest.raises(UserError, match=message) as caught:
            env.reset(options=options)
        assert "\n" not in str(caught.value)
    assert env.episode is None


def test_a_task_has_at_most_the_handles_that_there_are(add):
    class Three(Whole):
        def __init__(self, name):
            Task.__init__(self, name, RULES, ("joint",), num_markers=3)

    add(Three)
    with pytest.raises(UserError, match="num_markers of task 'mine' must be 0, 1 .*, got 3"):
        make_env("mine", "val", depth=False)


def test_an_unknown_sensor_is_named_with_the_nearest_one():
    with pytest.raises(UserError, match="unknown sensor 'ee_poz': did you mean 'ee_pos'"):
        Sensors(Whole("mine", ("ee_poz",)))


def test_progress_gives_two_things():
    with pytest.raises(UserError, match="Whole.progress must return a reward and the failure"):
        Whole("mine")._progress(None)


def test_episodes_have_to_be_episodes(add):
    add(Whole, episodes=PICK.make)
    with pytest.raises(UserError, match="the episodes of task 'mine' must be an Episodes"):
        generate_episode("mine", "val", 0, 0)


def test_a_program_gives_whole_actions(monkeypatch):
    def short(body, episode):
        yield np.zeros(8, np.float32)

    skill = replace(SKILLS["pick"], program=short)
    monkeypatch.setattr(SKILLS, "_entries", SKILLS._entries | {"pick": skill})
    env = make_env("pick", "val", depth=False)
    observation, info = env.reset(options={"index": 0})
    agent = make_agent("oracle", env)
    agent.reset(observation, info)
    with pytest.raises(UserError, match=r"program of pick must return \(11,\) numbers, got \(8,\)"):
        agent.act(observation, info)


def test_a_teacher_acts():
    pick = SKILLS["pick"]
    mine = SkillDefinition(
        name="mine", task="pick", recipe=pick.recipe, program=pick.program,
        teacher=lambda body, episode: object(),
    )  # fmt: skip
    with pytest.raises(UserError, match=r"the teacher of skill mine has no method act\(\)"):
        mine.start_teacher(None, None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"num_targets": 0}, "num_targets must be a whole number of 1 or more, got 0"),
        ({"sensors": "joint"}, "sensors of task 'mine' must be a tuple of sensors' names, got"),
        ({"sensors": ("joint", 3)}, "sensors of task 'mine' must be a tuple of sensors' names"),
        ({"sensors": ["joint", "marker_js"]}, "sensor 'marker_js' of a handle, but num_markers=0"),
    ],
)
def test_targets_and_sensors_are_looked_at_before_the_first_episode(add, more, message):
    class Reads(Whole):
        def __init__(self, name):
            Task.__init__(self, name, RULES, **{"sensors": ("joint",)} | more)

    add(Reads)
    with pytest.raises(UserError, match=message) as caught:
        make_env("mine", "val", depth=False)
    assert "\n" not in str(caught.value)


def test_what_a_task_says_in_numpys_types_comes_out_as_pythons(add):
    class InNumpy(Whole):
        def __init__(self, name):
            Task.__init__(self, name, RULES, ["joint"])

        def start(self, sim, episode):
            self.stages = {"near": np.False_}

        def progress(self, sim):
            self.stages["near"] = np.True_
            return np.float32(0.5), None

        def is_goal_reached(self, sim):
            return np.linalg.norm(np.zeros(3)) < 0.2

    add(InNumpy)
    env = make_env("mine", "val", depth=False)
    env.reset()
    _, reward, _, _, info = env.step(np.ones(env.action_space.shape, np.float32))
    assert type(reward) is float and type(info["success"]) is type(info["stages"]["near"]) is bool
    assert info["stages"]["near"] is True


def test_a_copied_task_that_keeps_the_simulation_reads_that_of_the_copy(add):
    class Keeps(Whole):
        def start(self, sim, episode):
            self.sim = sim

        def progress(self, sim):
            assert self.sim is sim
            return float(self.sim.base_pose[0]), None

    add(Keeps)
    env = make_env("mine", "val", depth=False)
    env.reset()
    ahead = np.zeros(env.action_space.shape, np.float32)
    ahead[8] = 1.0
    env.step(ahead)
    others = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    others.append(make_env("mine", "val", depth=False))
    others[2].set_state(pickle.loads(pickle.dumps(env.get_state())))
    rewards = [[one.step(ahead)[1] for _ in range(5)] for one in (env, *others)]
    assert len({*rewards[0]}) == 5 and all(found == rewards[0] for found in rewards)
