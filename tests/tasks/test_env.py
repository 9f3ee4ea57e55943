"""The environments as Gymnasium sees them."""

import multiprocessing
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rearrange.tasks  # noqa: F401  (registers the ids)
from rearrange.errors import UserError
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.names import HOME_TASKS, SKILL_TASKS, TASKS
from rearrange.tasks.rules.rulebook import make_task

REST = np.array([0.0] * 10 + [-1.0])


@pytest.fixture(scope="module")
def pick():
    return make_env("pick", "val", camera_size=16)


def equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("task", TASKS)
def test_gymnasiums_checker_passes(task):
    env = gymnasium.make(TASKS[task], camera_size=16, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=task != "pick")
    env.close()


def test_skill_sensors_are_those_of_the_table():
    """hab-spec 4.2; names and sizes, without the image."""
    shared = {"joint": 7, "is_holding": 1, "relative_resting_position": 3}
    door = shared | {"ee_pos": 3}
    expected = {
        "navigate": {"joint": 7, "goal_to_agent_gps_compass": 2},
        "pick": shared | {"obj_start_sensor": 3},
        "place": shared | {"obj_goal_sensor": 3},
        "open_drawer": door, "close_drawer": door, "open_fridge": door, "close_fridge": door,
    }  # fmt: skip
    for task in SKILL_TASKS:
        space = make_env(task, depth=False).observation_space
        assert {name: box.shape[0] for name, box in space.items()} == expected[task]


def test_handle_sensors_are_those_of_habitat_lab_0_2_2():
    more = {"marker_rel_pos": 3, "marker_js": 2}
    for task in SKILL_TASKS:
        plain = make_env(task, depth=False).observation_space
        space = make_env(task, depth=False, handle_sensors=True).observation_space
        added = {name: box.shape[0] for name, box in space.items() if name not in plain.spaces}
        assert added == (more if "drawer" in task or "fridge" in task else {})
    with pytest.raises(UserError, match="handle_sensors must be true or false, got 'yes'"):
        make_env("pick", handle_sensors="yes")


def test_a_home_has_every_sensor_of_every_skill():
    homes = {
        task: set(make_env(task, handle_sensors=True).observation_space) for task in HOME_TASKS
    }
    for skill in SKILL_TASKS:
        own = set(make_env(skill, handle_sensors=True).observation_space)
        for task, home in homes.items():
            # Navigate's is one of the targets' compasses, chosen by the agent.
            assert own - home <= {"goal_to_agent_gps_compass"}, task


def test_same_seed_same_observations_whatever_came_before(pick):
    def rollout():
        observation, _ = pick.reset(options={"index": 3})
        rng = np.random.default_rng(0)
        steps = [observation]
        for _ in range(20):
            steps.append(pick.step(np.append(rng.uniform(-1, 1, 10), -1.0))[0])
        return steps

    first = rollout()
    pick.reset(options={"index": 8})
    for _ in range(5):
        pick.step(np.ones(11))
    assert all(equal(a, b) for a, b in zip(first, rollout(), strict=True))


def test_the_stream_of_episodes(pick):
    def index(**kwargs):
        return pick.reset(**kwargs)[1]["episode_index"]

    assert index(seed=5) == 0
    assert [index(), index()] == [1, 2]
    assert (pick.episode.seed, index(options={"index": 7}), index()) == (5, 7, 8)
    episode = generate_episode("pick", "val", 9, 4)
    pick.reset(options={"episode": episode})
    assert pick.episode is episode and index() == 9
    assert index(seed=0) == 0


def test_strides_share_a_stream_without_repeats():
    seen = []
    for offset in range(2):
        env = make_env("pick", "val", depth=False, index_offset=offset, index_stride=2)
        seen += [env.reset()[1]["episode_index"] for _ in range(3)]
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]


def test_delay_hands_out_the_observation_of_the_step_before(pick):
    first, _ = pick.reset(options={"index": 0})
    now = [first]
    for i in range(5):
        observation = pick.step(np.append(np.full(10, 0.2 * i - 0.5), -1.0))[0]
        assert equal(observation, now[-1])
        now.append(pick.current_observation)
    assert not equal(now[1], now[2])
    prompt = make_env("pick", "val", camera_size=16, observation_delay=0)
    prompt.reset(options={"index": 0})
    for i in range(5):
        observation = prompt.step(np.append(np.full(10, 0.2 * i - 0.5), -1.0))[0]
        assert equal(observation, now[i + 1])


def test_observations_stay_what_they_were(pick):
    """Who stores an observation does not need to copy it."""
    pick.reset(options={"index": 0})
    kept = [pick.step(np.append(np.full(10, 0.5), -1.0))[0] for _ in range(4)]
    copies = [{k: v.copy() for k, v in o.items()} for o in kept]
    for _ in range(4):
        pick.step(np.append(np.full(10, -0.5), -1.0))
    assert all(equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_time_limit_truncates_and_does_not_terminate():
    env = make_env("pick", "val", depth=False, max_episode_steps=3)
    env.reset()
    ends = [env.step(REST)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    assert env.step(REST)[4]["failure"] == "time_limit"


def test_a_given_episode_has_the_time_of_its_home():
    """Ways are longer in homes of many rooms; a single skill's are not."""
    limits = {}
    for task in ("tidy_house_easy", "close_fridge"):
        env = make_env(task, "val", depth=False)
        other = generate_episode(task, "val", 0, 0, homes="procedural")
        for name, options in (("hab", {"index": 0}), ("other", {"episode": other})):
            env.reset(options=options)
            limits[task, name] = env._max_steps
            state = env.get_state()
            env.reset(options={"index": 1})
            env.set_state(state)
            assert env._max_steps == limits[task, name]
    env = make_env("set_table_easy", "val", depth=False, homes="procedural")
    times = []
    for homes in ("hab", "procedural"):
        env.reset(options={"episode": generate_episode("set_table_easy", "val", 0, 0, homes=homes)})
        times.append(env._max_steps)
    assert times[0] == make_task("set_table_easy").rules.max_episode_steps == times[1] / 1.5
    env = make_env("tidy_house_easy", "val", depth=False, homes="mixed")
    env.reset(options={"index": 0})
    assert env._max_steps == limits["tidy_house_easy", "other"]  # of what is drawn, all
    env.reset(options={"episode": generate_episode("tidy_house_easy", "val", 0, 0)})
    assert env._max_steps == limits["tidy_house_easy", "other"]  # as where it was drawn
    assert limits["tidy_house_easy", "other"] == 1.5 * limits["tidy_house_easy", "hab"]
    assert limits["close_fridge", "other"] == limits["close_fridge", "hab"]


def test_stop_without_success_terminates():
    env = make_env("navigate", "val", depth=False)
    env.reset()
    _, _, terminated, truncated, info = env.step(np.append(np.zeros(10), 1.0))
    assert (terminated, truncated, info["failure"]) == (True, False, "stop_without_success")
    assert info["is_stop_called"] and not info["success"]


def test_a_broken_world_says_where():
    env = make_env("pick", "val", seed=4, depth=False)
    env.reset(options={"index": 2})
    env.step(REST)
    env.sim.data.qpos[0] = np.nan
    with pytest.raises(RuntimeError, match="task pick, split val, seed 4, episode 2, step 2"):
        env.step(REST)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"task": "juggle"}, "unknown task 'juggle': choose from tidy_house, "),
        ({"split": "holiday"}, "split must be one of train, val, test; got 'holiday'"),
        ({"seed": -1}, "seed must be a whole number of 0 or more, got -1"),
        ({"camera_size": 0}, "camera_size must be"),
        ({"observation_delay": 2}, "observation_delay must be a whole number from 0 to 1, got 2"),
        ({"observation_delay": True}, "observation_delay must be a whole number from 0 to 1, got"),
        ({"ranges": 1}, "ranges must be false, true or 'camera', got 1"),
        ({"action_space": "tiny"}, "action_space must be one of full, skill, stationary"),
        ({"max_episode_steps": 1.5}, "max_episode_steps must be a whole number"),
        ({"task": ["pick"]}, r"the name of a task must be a text, got \['pick'\]"),
        ({"task": None}, "the name of a task must be a text, got None"),
        ({"split": ["test"]}, "split must be one of train, val, test; got a list of 1"),
        ({"starts": 5}, "starts must be one of task, chain, varied, driven, reach; got 5"),
        ({"depth": "no"}, "depth must be true or false, got 'no'"),
        ({"depth": None}, "depth must be true or false, got None"),
        ({"index_offset": 2**60}, f"index_offset must be a whole number from 0 to {2**53}, got"),
        ({"index_stride": 0}, "index_stride must be a whole number of 1 or more"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(UserError, match=message):
        make_env(**({"task": "pick"} | options))


@pytest.mark.parametrize(
    "options",
    [
        {"index": -1}, {"index": "x"}, {"index": 2**60}, {"indx": 1}, {1: 2, "a": 3}, 5, ["index"],
        {"episode": {"task": "pick"}},
    ],
)  # fmt: skip
def test_wrong_reset_options_are_named(pick, options):
    with pytest.raises(UserError, match="got"):
        pick.reset(options=options)


def test_a_reset_takes_an_index_or_an_episode(pick):
    both = {"index": 3, "episode": generate_episode("pick", "val", 0, 0)}
    with pytest.raises(UserError, match="must have an index or an episode, got both"):
        pick.reset(options=both)


@pytest.mark.parametrize("seed", ["a", 1.5, -1, True, 2**70, [1]])
def test_a_wrong_seed_is_named_and_changes_nothing(pick, seed):
    pick.reset(seed=3)
    with pytest.raises(UserError, match="seed must be a whole number"):
        pick.reset(seed=seed)
    with pytest.raises(UserError, match="index must be a whole number"):
        pick.reset(seed=5, options={"index": -1})
    assert (pick.seed, pick.reset()[1]["episode_index"]) == (3, 1)
    assert pick.reset(seed=np.int64(3))[1]["episode_index"] == 0


def test_step_before_reset_is_refused():
    with pytest.raises(RuntimeError, match="reset"):
        make_env("pick", depth=False).step(REST)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_gymnasiums_async_vector_env(context):
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {context} on this system")
    envs = gymnasium.make_vec(
        "rearrange/SetTable-v0", num_envs=2, vectorization_mode="async", split="val",
        camera_size=16, max_episode_steps=2, vector_kwargs={"context": context},
    )  # fmt: skip
    try:
        observations, _ = envs.reset(seed=[3, 4])
        alone = make_env("set_table", "val", camera_size=16)
        assert equal({k: v[1] for k, v in observations.items()}, alone.reset(seed=4)[0])
        for _ in range(4):  # over an end and the reset after it
            observations, rewards, _, truncated, infos = envs.step(np.tile(REST, (2, 1)))
        assert observations["head_depth"].shape == (2, 16, 16, 1) and rewards.shape == (2,)
        assert infos["episode_index"].tolist() == [1, 1]
        assert infos["stages"]["stage_1"].tolist() == [False, False]
    finally:
        envs.close()


def test_a_worker_loads_nothing_heavy():
    code = (
        "import sys; from rearrange.tasks.registry import make_env; env = make_env('pick');"
        "env.reset(); env.step(env.action_space.sample());"
        "print(sorted({'torch', 'matplotlib', 'imageio', 'hydra'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_reward_that_is_no_number_is_named_with_its_place(monkeypatch):
    env = make_env("navigate", split="val", seed=0, depth=False)
    env.reset(options={"index": 2})
    step = env.task.step

    def spoilt(sim, is_stop):
        return step(sim, is_stop)._replace(reward=float("nan"))

    monkeypatch.setattr(env.task, "step", spoilt)
    where = "task navigate, split val, seed 0, episode 2, step 1"
    with pytest.raises(UserError, match=f"reward must be a finite number, got nan: {where}"):
        env.step(env.action_space.sample())


def test_environments_take_a_path_for_a_home():
    flat = Path(__file__).parents[2] / "examples" / "flat.json"
    env = make_env("pick", "val", 0, depth=False, homes=flat)
    assert env.homes == env.init_kwargs["homes"] == str(flat)
    env = gymnasium.make("rearrange/Pick-v0", depth=False, homes=flat)
    assert env.get_wrapper_attr("homes") == str(flat)
