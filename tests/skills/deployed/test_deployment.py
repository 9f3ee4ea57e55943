"""What ends a trained skill in a chain, what is masked, and the arm between two skills."""

import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.definition import SKILLS
from rearrange.skills.deployed.deployment import (
    Progress,
    Senses,
    reset_arm,
    rules_of,
    run_policy,
)
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import GRIP, STOP
from rearrange.tasks.episodes.generate import generate_episode

FAR, NEAR = np.array([0.3, 0.0, 0.0], np.float32), np.array([0.1, 0.0, 0.0], np.float32)


class Fixed:
    """A policy that always gives the same grip and stop."""

    def __init__(self, grip=0.5, stop=1.0):
        self.grip, self.stop, self.seeds = grip, stop, []

    def reset(self, seed=0, explore=False):
        self.seeds.append(seed)

    def act(self, observation):
        action = np.full(11, 0.25, np.float32)
        action[GRIP], action[STOP] = self.grip, self.stop
        return action


def senses(is_holding=False, to_rest=FAR, distance=1.0):
    made = Senses()
    made.now = {
        "is_holding": np.array([float(is_holding)], np.float32),
        "relative_resting_position": to_rest,
    }
    made.seen = {
        "goal_to_agent_gps_compass": np.array([distance, 0.0], np.float32),
        "obj_start_sensor": FAR,
        "obj_goal_sensor": FAR,
        "relative_resting_position": to_rest,
    }
    return made


def steps(skill, policy, feel, count=5):
    """Actions of the first steps, and whether the skill has ended within them."""
    program, actions = run_policy(skill, policy, feel, lambda seen: seen, seed=9), []
    for _ in range(count):
        try:
            actions.append(next(program))
        except StopIteration as end:
            assert end.value is None
            return actions, True
    return actions, False


def test_navigate_cannot_stop_while_the_compass_shows_more_than_two_metres():
    feel, policy = senses(distance=2.01), Fixed()
    program = run_policy("navigate", policy, feel, lambda seen: seen, seed=9)
    for _ in range(3):
        action = next(program)
        assert action[STOP] == 0.0 and action[8] == 0.25  # it drives on
    feel.seen = senses(distance=1.99).seen
    with pytest.raises(StopIteration):
        next(program)
    assert policy.seeds == [9]  # its memory was cleared once


@pytest.mark.parametrize("skill", SKILLS)
def test_no_stop_output_ever_leaves_a_skill(skill):
    actions, has_ended = steps(skill, Fixed(stop=1.0), senses(distance=5.0))
    assert all(action[STOP] == 0.0 for action in actions)
    assert has_ended == skill.startswith(("open", "close"))


def way(distances, bearings=None):
    """Whether Navigate is told to give up on the way, after how many steps."""
    progress = Progress("navigate")
    for count, distance in enumerate(distances):
        bearing = 0.1 * count if bearings is None else bearings[count]
        compass = {"goal_to_agent_gps_compass": np.array([distance, bearing], np.float32)}
        if progress.has_stalled(compass):
            return count
    return None


def test_navigate_gives_up_where_it_stands_still_and_only_there():
    assert way(np.linspace(6.0, 1.4, 140)) is None  # at 1 m/s
    assert way(np.full(200, 3.0), np.zeros(200)) == 59  # stands for two seconds
    assert way(np.full(150, 3.0)) is None  # turns on the spot
    there_and_back = 4.0 + np.sin(np.arange(300) / 10.0)
    assert 180 <= way(there_and_back) < 260  # comes no nearer
    around = np.concatenate([np.linspace(3.0, 5.0, 80), np.linspace(5.0, 1.4, 120)])
    assert way(around) is None  # a way around a table leads away at first


@pytest.mark.parametrize("skill, sensor", [("pick", "obj_start"), ("place", "obj_goal")])
def test_pick_and_place_give_up_where_they_stand_still_and_only_there(skill, sensor):
    def until(target, rest):
        """After how many steps it is told to give up; the sensors show these vectors, [T, 3]."""
        progress = Progress(skill)
        for count, (to_target, to_rest) in enumerate(zip(target, rest, strict=True)):
            seen = {f"{sensor}_sensor": to_target, "relative_resting_position": to_rest}
            if progress.has_stalled(seen):
                return count
        return None

    still = np.zeros((300, 3), np.float32)
    turning = 1.5 * np.stack([np.cos(np.arange(300) / 30), np.sin(np.arange(300) / 30)] * 2)[:3].T
    assert until(still, still) == 59
    assert until(turning, still) is None  # the base drives around a door, comes no nearer
    assert until(still, turning) is None  # the hand alone moves
    assert until(np.concatenate([turning[:100], still[:100]]), still[:200]) == 159


@pytest.mark.parametrize("gives_up, taken", [(True, 59), (False, 300)])
def test_by_habitats_rule_a_skill_that_stands_still_goes_on(gives_up, taken):
    feel, policy = senses(distance=5.0), Fixed(stop=-1.0)
    program = run_policy("navigate", policy, feel, lambda seen: seen, gives_up=gives_up)
    assert sum(1 for _ in zip(range(300), program, strict=False)) == taken


def test_what_opens_and_closes_is_not_watched():
    assert not any(Progress("open_drawer").has_stalled({}) for _ in range(500))


def test_pick_ends_when_it_holds_something_at_rest():
    assert steps("pick", Fixed(), senses(True, NEAR)) == ([], True)
    for feel in (senses(True, FAR), senses(False, NEAR)):
        assert not steps("pick", Fixed(), feel)[1]


def test_place_ends_with_an_empty_hand_at_rest():
    assert steps("place", Fixed(), senses(False, NEAR)) == ([], True)
    for feel in (senses(True, NEAR), senses(False, FAR)):
        assert not steps("place", Fixed(), feel)[1]


def test_place_never_grips_again_once_it_has_let_go():
    feel = senses(True, FAR)
    program = run_policy("place", Fixed(grip=0.5), feel, lambda seen: seen)
    assert next(program)[GRIP] == 0.5
    feel.now = senses(False, FAR).now
    assert next(program)[GRIP] == -1.0
    feel.now = senses(True, FAR).now  # it touched something with the suction still going
    assert next(program)[GRIP] == -1.0


def test_the_grip_is_treated_as_in_each_skills_own_task():
    for holding in (True, False):
        hold = 1.0 if holding else -1.0
        for grip in (-0.5, 0.5):
            for skill in ("navigate", "close_drawer", "close_fridge"):
                assert rules_of(skill).grip(grip, holding, False) == hold
            for skill in ("open_drawer", "open_fridge"):
                assert rules_of(skill).grip(grip, holding, False) == grip
    assert rules_of("pick").grip(-0.5, True, False) == 1.0
    assert rules_of("pick").grip(-0.5, False, True) == -0.5
    assert rules_of("place").grip(-0.5, True, False) == -0.5


@pytest.fixture(scope="module")
def sim():
    return Simulation()


def reset_from(sim, offset):
    """Steps that the arm reset takes from ARM_START + offset, and what is left, rad."""
    episode = generate_episode("navigate", "val", 0, 0)
    sim.reset(episode.scene)
    sim.set_robot(sim.base_pose, fetch.ARM_START + offset)
    feel, count = Senses(), 0
    feel.now = {"joint": sim.arm_qpos}
    for action in reset_arm(Robot(sim), feel):
        assert np.abs(action).max() <= 1.0 and action[STOP] == 0.0 and not action[8:10].any()
        sim.step(action[:7], action[GRIP], action[8:10])
        feel.now = {"joint": sim.arm_qpos}
        count += 1
    return count, np.abs(sim.arm_qpos - fetch.ARM_START).max()


def test_the_arm_comes_to_its_start_and_the_reset_ends(sim):
    offset = np.array([0.4, 0.3, -0.2, -0.4, 0.3, -0.3, 0.1])
    count, left = reset_from(sim, offset)
    # 0.35 rad at 0.0125 rad a step, and the few steps by which the arm lags its motor targets
    assert 28 <= count <= 45 and left < 0.05
    assert reset_from(sim, 0.04 * np.ones(7))[0] == 0


def test_an_arm_reset_gives_up_after_fifty_steps(sim):
    count, left = reset_from(sim, np.array([1.5, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0]))
    assert count == 50
    assert 1.5 - 50 * 0.0125 <= left < 1.5 - 40 * 0.0125
