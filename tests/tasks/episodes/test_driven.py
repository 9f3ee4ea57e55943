"""`starts="driven"`: the robot has driven to where it begins, and may touch something there."""

import gymnasium
import numpy as np
import pytest

import rearrange  # noqa: F401  registers the environments
from rearrange.tasks.registry import make_env


def env_of(task, **options):
    options = {"split": "train", "seed": 4, "depth": False, "starts": "driven"} | options
    return make_env(task, **options).unwrapped


def has_driven(env):
    return bool(np.abs(np.array(env.sim.base_pose) - env.episode.scene.base).max() > 1e-6)


@pytest.fixture(scope="module")
def picks():
    """Of 100 episodes of Pick: has driven, touches, base, episode, m its target moved, arm."""
    env, found = env_of("pick"), []
    for i in range(100):
        _, info = env.reset(options={"index": i})
        assert info["num_steps"] == 0 and info["force_accum"] == 0.0
        base, episode, is_driven = np.array(env.sim.base_pose), env.episode, has_driven(env)
        target = episode.targets[0]
        drawn = episode.scene.objects[target.object].pos
        moved = float(np.linalg.norm(env.sim.object_pos_w(target.object) - drawn))
        touches = env.sim.has_robot_contact()
        found.append((is_driven, touches, base, episode, moved, env.sim.arm_qpos))
    return found


def test_some_have_driven_and_the_others_begin_as_drawn(picks):
    driven = [pick for pick in picks if pick[0]]
    assert 10 <= len(driven) <= 45
    for is_driven, touches, base, episode, _, arm in picks:
        if not is_driven:
            assert not touches and tuple(base) == pytest.approx(episode.scene.base)
            assert arm == pytest.approx(np.array(episode.scene.arm))


def test_who_has_driven_is_near_faces_the_thing_and_has_not_moved_it(picks):
    for is_driven, _, (x, y, yaw), episode, moved, _ in picks:
        if is_driven:
            off = episode.targets[0].start[:2] - np.array([x, y])
            bearing = np.angle(np.exp(1j * (np.arctan2(off[1], off[0]) - yaw)))
            assert 0.9 < np.hypot(*off) < 1.9 and abs(bearing) < 0.8
            assert moved < 0.04


def test_arms_are_caught_that_never_are_in_episodes_as_drawn(picks):
    caught = [touches for is_driven, touches, *_ in picks if is_driven]
    assert 0.05 < np.mean(caught) < 0.6


def test_what_the_arm_leans_on_as_it_begins_is_no_new_force():
    """Habitat-lab's measure begins with the force that there is (`reset_metric` of RobotForce)."""
    env, forces = env_of("pick"), []
    for i in range(24):
        env.reset(options={"index": i})
        if has_driven(env) and env.sim.has_robot_contact():
            before = env.sim.force_accum
            env.step(np.zeros(11, np.float32))
            forces.append((before, env.sim.force_accum))
    assert len(forces) > 1 and forces == [(0.0, 0.0)] * len(forces)


def test_what_is_held_is_held_still():
    env, driven = env_of("place"), 0
    for i in range(12):
        env.reset(options={"index": i})
        driven += has_driven(env)
        assert env.sim.held_object == env.episode.targets[0].object
    assert driven


@pytest.mark.parametrize("task", ["navigate", "tidy_house"])
def test_what_no_other_skill_precedes_begins_as_drawn(task):
    env = env_of(task)
    for i in range(6):
        env.reset(options={"index": i})
        assert env.sim.base_pose == pytest.approx(env.episode.scene.base)


def test_a_driven_start_is_the_same_twice_and_in_a_vector(picks):
    index = next(i for i, pick in enumerate(picks) if pick[0])
    one, other = env_of("pick"), env_of("pick")
    first, _ = one.reset(options={"index": index})
    other.reset(options={"index": index + 1})
    again, _ = other.reset(options={"index": index})
    together = gymnasium.make_vec(
        "rearrange/Pick-v0", num_envs=2, vectorization_mode="vector_entry_point", split="train",
        depth=False, starts="driven",
    )  # fmt: skip
    alone = env_of("pick")
    seeds = range(5, 30)
    seed = next(seed for seed in seeds if alone.reset(seed=seed) and has_driven(alone))
    (alone_first, _), (vector, _) = alone.reset(seed=seed), together.reset(seed=seed - 1)
    for name, value in first.items():
        assert (value == again[name]).all(), name
        assert (vector[name][1] == alone_first[name]).all(), name
    together.close()
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1, 1, 11).astype(np.float32)
        left, right = one.step(action), other.step(action)
        assert all((left[0][name] == right[0][name]).all() for name in left[0])
        assert left[1] == right[1]
