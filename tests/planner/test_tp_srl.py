"""Chains of trained skills in the real home: untrained networks, the oracle in their place."""

import json

import numpy as np
import pytest

from rearrange import cli
from rearrange.errors import UserError
from rearrange.eval.runner import EpisodeRunnerCfg, make_env_and_agent
from rearrange.planner.agents.beliefs import Beliefs
from rearrange.planner.agents.chain import RECOVERY_LIMIT
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.agents.fact_sources import PrivilegedFacts, SensedFacts
from rearrange.planner.agents.memory import Memory
from rearrange.planner.agents.skill_set import load_skill_set, skill_paths
from rearrange.planner.home.calls import Call
from rearrange.sim.robot import fetch
from rearrange.skills.deployed import deployment
from rearrange.skills.deployed.recovery import BACK_STEPS
from rearrange.skills.deployed.skill_files import write_skill
from rearrange.skills.skill import GRIP, STOP

NAMES = ("navigate", "pick", "place")


@pytest.fixture(scope="module")
def folder(make_skill, tmp_path_factory):
    """Skills that have never learned anything."""
    folder = tmp_path_factory.mktemp("skills")
    for name in (*NAMES, "open_drawer", "open_fridge"):
        write_skill(make_skill(name), folder / f"{name}.safetensors")
    for name in ("pick", "place"):
        skill = make_skill(name, action_space="stationary")
        write_skill(skill, folder / f"{name}_fixed_base.safetensors")
    return folder


def world(folder, agent="tp_srl", task="tidy_house", **options):
    chain = ChainCfg(skills=None if folder is None else str(folder), **options)
    return make_env_and_agent(
        EpisodeRunnerCfg(task=task, agent=agent, split="val", seed=0, chain=chain)
    )


def play(env, agent, index=0, steps=None):
    """Observations and actions of an episode, at most `steps`; its last info."""
    observation, info = env.reset(options={"index": index})
    agent.reset(observation, info)
    actions, is_over = [], False
    while not is_over and len(actions) != steps:
        actions.append(agent.act(observation, info))
        assert env.action_space.contains(actions[-1])
        observation, _, terminated, truncated, info = env.step(actions[-1])
        is_over = terminated or truncated
    return np.array(actions), info


# --- networks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent_name", ["tp_srl", "tp_srl_nonav", "tp_srl_fixed_base"])
def test_untrained_skills_act_time_out_and_are_counted(folder, agent_name):
    limits = {"navigate": 10, "pick": 15}
    env, agent = world(folder, agent_name, limits=limits, max_failures=2)
    assert env.observation_space["head_depth"].shape == (16, 16, 1)
    actions, info = play(env, agent, steps=400)
    assert not info["success"] and info["is_stop_called"]  # it gave up, and said so
    assert (actions[:-1, STOP] == 0.0).all() and actions[-1, STOP] == 1.0
    first = "pick" if agent_name == "tp_srl_nonav" else "navigate"
    assert agent.attempts == 2 * [(first, False)]
    assert agent.failure == f"{first}(any_targets|0): out of time"
    assert agent.plan_lines and "(any_targets|0)" in agent.status
    # The first arm reset brings the noisy start posture near ARM_START before the clock runs.
    # Between both attempts the robot steps aside.
    assert 2 * limits[first] < len(actions) <= 2 * (limits[first] + 50) + 1 + RECOVERY_LIMIT


@pytest.mark.parametrize(
    "looks, beliefs, source",
    [
        ("none", Memory, PrivilegedFacts),
        ("own", Memory, SensedFacts),
        ("privileged", Beliefs, PrivilegedFacts),
    ],
)
def test_looks_chooses_the_beliefs_and_the_source_of_facts(folder, looks, beliefs, source):
    env, agent = world(folder, looks=looks)
    play(env, agent, steps=1)
    assert type(agent._beliefs) is beliefs and type(agent._chain._source) is source


@pytest.mark.parametrize("looks, why", [("none", "out of time"), ("own", "stuck")])
def test_a_pick_that_stands_still_is_stuck_unless_nobody_looks(folder, monkeypatch, looks, why):
    monkeypatch.setattr(deployment, "STILL_STEPS", 5)
    options = {"looks": looks, "max_failures": 1, "limits": {"pick": 8}}
    env, agent = world(folder, "tp_srl_nonav", **options)
    pick = agent._skills.policies["pick"]
    monkeypatch.setattr(pick, "act", lambda seen: np.zeros(11, np.float32))
    _, info = play(env, agent, steps=100)
    assert info["is_stop_called"] and agent.failure == f"pick(any_targets|0): {why}"


def test_a_fixed_base_skill_does_not_drive(folder):
    options = {"oracle_skills": ("navigate",), "max_failures": 1, "limits": {"pick": 8}}
    env, agent = world(folder, "tp_srl_fixed_base", "set_table_easy", **options)
    actions, _ = play(env, agent, steps=900)
    picking = actions[-9:-1]
    assert agent.attempts == [("navigate", True), ("pick", False)]
    assert not picking[:, 8:10].any() and picking[:, :7].any()


def test_the_same_episode_gives_the_same_actions_whatever_came_before(folder):
    env, agent = world(folder, is_sampling=True, limits={"navigate": 6})
    first, _ = play(env, agent, 0, steps=25)
    play(env, agent, 1, steps=9)
    assert np.array_equal(play(env, agent, 0, steps=25)[0], first)


def test_what_a_handle_or_a_wrong_object_left_in_the_hand_is_let_go_before_pick(folder):
    env, agent = world(folder, "tp_srl_nonav", "set_table_easy", limits={"pick": 3})
    observation, info = env.reset(options={"index": 0})
    target = env.episode.targets[0].object
    other = next(i for i in range(env.sim.num_objects) if i != target)
    env.sim.snap_object(other)
    agent.reset(observation, info)
    observation, *_ = env.step(np.eye(11, dtype=np.float32)[GRIP])
    assert env.sim.held_object == other
    assert agent.act(observation, info)[GRIP] == -1.0
    env.step(np.eye(11, dtype=np.float32)[GRIP] * -1.0)
    assert not env.sim.is_holding


def test_the_arm_is_at_its_start_when_a_skill_begins_again(folder):
    env, agent = world(folder, limits={"navigate": 8}, max_failures=3)
    observation, info = env.reset(options={"index": 0})
    agent.reset(observation, info)
    off, lefts, phases = fetch.ARM_START + 0.3, [], set()
    while len(agent.attempts) < 2:
        if agent.status == "navigate(any_targets|0)" and not lefts:
            env.sim.set_robot(env.sim.base_pose, off)  # as if the skill had moved it
            lefts.append(0.3)
        observation, *_ = env.step(agent.act(observation, info))
        phases.add(agent.status.partition(": ")[2])
        if len(agent.attempts) == 1 and agent.status.endswith(("out", "aside", "start")):
            lefts.append(float(np.abs(env.sim.arm_qpos - fetch.ARM_START).max()))
    assert phases == {"", "arm to its start", "backing out", "stepping aside"}
    assert lefts[1] > 0.2 and lefts[-1] < 0.07


def test_after_a_failure_the_robot_steps_aside_and_comes_back(folder):
    """Pick fails; the plan that is made then begins with the way to its place."""
    options = {"oracle_skills": ("navigate",), "limits": {"pick": 5}, "max_failures": 2}
    env, agent = world(folder, "tp_srl", "set_table_easy", **options)
    observation, info = env.reset(options={"index": 0})
    agent.reset(observation, info)
    poses = []
    while agent.status != "done" and len(agent.attempts) < 4 and not info["is_stop_called"]:
        observation, _, _, _, info = env.step(agent.act(observation, info))
        if agent.status.endswith(("backing out", "stepping aside")):
            poses.append(env.sim.base_pose)
    assert [name for name, _ in agent.attempts] == ["navigate", "pick", "navigate", "pick"]
    assert np.hypot(poses[-1][0] - poses[0][0], poses[-1][1] - poses[0][1]) > 0.3


def test_the_robot_backs_out_before_what_follows_pick(folder):
    env, agent = world(folder)
    observation, info = env.reset(options={"index": 0})
    agent.reset(observation, info)
    agent.act(observation, info)
    skills, call = agent._chain._skills, agent._chain._call(0)
    next(skills.program(call, None))
    assert not any(action[8] for action in skills.prepare(call))  # Navigate's hand is not out
    next(skills.program(call._replace(skill="pick"), None))
    speeds = [action[8] for action in skills.prepare(call)]
    assert speeds[:BACK_STEPS] == BACK_STEPS * [-0.5] and not any(speeds[BACK_STEPS:])
    assert not any(action[8] for action in skills.prepare(call))  # once is enough


def test_place_sees_the_goal_that_the_plan_names(folder):
    """Where the fridge is shut, what belongs in it is put aside at the goal of something else."""
    env, agent = world(folder, task="tidy_house")
    observation, info = env.reset(options={"index": 0})
    agent.reset(observation, info)
    agent.act(observation, info)
    goals = observation["obj_goal_sensor"].reshape(-1, 3)
    names = [target.name for target in env.episode.targets]
    for goal in (2, 0):
        call = Call("place", names[2], "", goal="" if goal == 2 else names[goal])
        seen = agent._chain._skills._view(call)(observation)
        np.testing.assert_array_equal(seen["obj_goal_sensor"], goals[goal])


def test_the_way_to_the_fridge_stays_when_its_things_are_gone(folder):
    env, agent = world(folder, task="prepare_groceries")
    observation, info = env.reset(options={"index": 0})
    agent.reset(observation, info)
    agent.act(observation, info)
    skills = agent._chain._skills
    call = Call("navigate", "fridge_push_point", "")
    before = skills._view(call)(observation)
    skills._beliefs.let_go(0, 0)  # on the counter
    after = skills._view(call)(observation)
    inside = observation["obj_start_gps_compass"][:2]
    for seen in (before, after):
        np.testing.assert_array_equal(seen["goal_to_agent_gps_compass"], inside)
    to_it = skills._view(Call("navigate", env.episode.targets[0].name, ""))(observation)
    assert np.abs(to_it["goal_to_agent_gps_compass"] - inside).max() > 0.1


# --- the oracle instead ---------------------------------------------------------------------------


def test_the_oracle_in_place_of_all_skills_solves_an_episode():
    env, agent = world(None, task="set_table_easy", oracle_skills=(*NAMES, "open_drawer"))
    assert "head_depth" not in env.observation_space.spaces  # nobody looks at pictures
    _, info = play(env, agent)
    assert info["success"] and info["is_stop_called"] and all(info["stages"].values())
    assert agent.attempts == [(n, True) for n in ("navigate", "pick", "navigate", "place")]


def test_without_navigate_the_others_drive():
    env, agent = world(None, "tp_srl_nonav", "set_table_easy", oracle_skills=("pick", "place"))
    _, info = play(env, agent)
    assert info["success"]
    assert agent.attempts == [("pick", True), ("place", True)]
    assert len(agent.plan_lines) == 4


# --- what is refused ------------------------------------------------------------------------------


def test_only_what_a_task_can_need_is_asked_for(folder):
    cfg = ChainCfg(skills=str(folder))
    assert list(skill_paths("tidy_house", "tp_srl", cfg)) == list(NAMES)
    assert set(skill_paths("set_table", "tp_srl", cfg)) == {*NAMES, "open_drawer", "open_fridge"}
    assert set(skill_paths("tidy_house", "tp_srl_nonav", cfg)) == {"pick", "place"}
    fixed = skill_paths("set_table", "tp_srl_nonav", ChainCfg(skills=str(folder)))
    assert fixed["pick"].name == "pick.safetensors"
    with pytest.raises(UserError, match="open_drawer_fixed_base"):
        skill_paths("set_table", "tp_srl_fixed_base", cfg)
    some = ChainCfg(skills=str(folder), oracle_skills=("navigate",))
    assert "navigate" not in skill_paths("tidy_house", "tp_srl", some)


def test_skills_that_see_differently_are_refused(make_skill, tmp_path):
    sizes = {"navigate": 16, "pick": 24, "place": 16}
    for name, size in sizes.items():
        write_skill(make_skill(name, camera_size=size), tmp_path / f"{name}.safetensors")
    with pytest.raises(UserError, match="one camera_size, got navigate 16, pick 24, place 16"):
        load_skill_set("tidy_house", "tp_srl", ChainCfg(skills=str(tmp_path)))
    write_skill(make_skill("pick", observation_delay=0), tmp_path / "pick.safetensors")
    with pytest.raises(UserError, match="one observation_delay"):
        load_skill_set("tidy_house", "tp_srl", ChainCfg(skills=str(tmp_path)))


def test_skills_under_a_wrong_name_are_refused(make_skill, folder, tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.safetensors").symlink_to(folder / "place.safetensors")
    with pytest.raises(UserError, match="was trained in task place, not in navigate"):
        load_skill_set("tidy_house", "tp_srl", ChainCfg(skills=str(tmp_path)))
    for name in ("navigate", "pick_fixed_base", "place_fixed_base"):
        path = tmp_path / f"{name}.safetensors"
        path.unlink(missing_ok=True)
        path.symlink_to(folder / f"{name.removesuffix('_fixed_base')}.safetensors")
    with pytest.raises(UserError, match="must be trained with action_space=stationary"):
        load_skill_set("tidy_house", "tp_srl_fixed_base", ChainCfg(skills=str(tmp_path)))


def fails(capsys, *arguments):
    """The one line on stderr of a command that must fail."""
    assert cli.main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    return captured.err


def test_mistakes_are_one_line_before_any_work(folder, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["evaluate", "agent=tp_srl", f"output_dir={out}"]
    (tmp_path / "some").mkdir()
    line = fails(capsys, *arguments, f"skills={tmp_path / 'some'}")
    assert "skill navigate is missing" in line and "train-skill navigate" in line
    assert "no folder" in fails(capsys, *arguments, f"skills={tmp_path / 'none'}")
    assert "task must be one of tidy_house, " in fails(capsys, *arguments, "task=pick")
    assert "no skill 'fly'" in fails(capsys, *arguments, "oracle_skills=navigate,fly")
    assert "limits.pick must be" in fails(capsys, *arguments, "limits.pick=0")
    hyphen = fails(capsys, *arguments, "limits.my-skill=3")  # of one's own it may have one
    assert "limits" in hyphen and "has no setting" not in hyphen
    assert "max_failures must be" in fails(capsys, *arguments, "max_failures=0")
    assert "is for agent=tp_srl" in fails(
        capsys, "evaluate", "agent=oracle", "oracle_skills=pick", f"output_dir={out}"
    )
    record = ["record", "agent=tp_srl", f"skills={tmp_path / 'some'}"]
    assert "navigate is missing" in fails(capsys, *record, f"output={tmp_path / 'film.mp4'}")
    view = ["view", "agent=tp_srl", "task=tidy_house", f"skills={tmp_path / 'some'}", "port=0"]
    assert "navigate is missing" in fails(capsys, *view)
    missing = ["evaluate", "agent=learned", "task=place", f"skills={tmp_path / 'some'}"]
    assert "skill place is missing" in fails(capsys, *missing, f"output_dir={out}")
    assert "needs checkpoint=" in fails(
        capsys, "evaluate", "agent=learned", "task=tidy_house", f"output_dir={out}"
    )
    assert not out.exists()


def test_the_summary_says_whose_skills_were_at_work(folder, tmp_path, capsys):
    arguments = ["evaluate", "task=set_table_easy", "agent=tp_srl", f"skills={folder}"]
    arguments += ["num_episodes=1", "num_workers=1", f"output_dir={tmp_path}", "max_failures=1"]
    arguments += ["limits.navigate=5", "oracle_skills=[place]"]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "oracle skills, which read the simulator's state: place" in printed
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["oracle_skills"] == ["place"] and summary["skipped_skills"] == []
    assert set(summary["trained_skills"]) == {"navigate", "pick", "open_drawer"}
    assert summary["skills"] == {"navigate": {"attempts": 1, "successes": 0}}
    places = summary["failure_places"]
    assert len(places) == 1 and places[0]["stage"] == "stage_0_5"
    assert places[0]["failure"] == "navigate(bowl_target|0): out of time"
    page = (tmp_path / "report.html").read_text()
    assert "first stage missed" in page and "oracle skills" in page
