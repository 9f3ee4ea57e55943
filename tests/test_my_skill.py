"""examples/my_skill: task, skill and plan of somebody else's package, none of ours changed."""

import json
import math
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from rearrange.cli import main
from rearrange.commands.overrides import last_override_per_key
from rearrange.commands.settings import load
from rearrange.commands.skills.plan import plan
from rearrange.commands.training.final_report import what_next
from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.training_env import training_env_of
from rearrange.commands.training.validation import arguments_of
from rearrange.errors import UserError
from rearrange.eval.trained_env import home_evaluation
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.agents.registry import make_agent
from rearrange.planner.agents.skill_set import load_skill_set
from rearrange.skills.definition import SKILLS
from rearrange.skills.deployed.trained_skills import skill_path
from rearrange.tasks.episodes.driven import drive_up
from rearrange.tasks.episodes.generate import NAVIGATE
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.definition import TASKS, TaskDefinition
from rearrange.tasks.rules.navigate import NavigateTask

EXAMPLE = Path(__file__).parents[1] / "examples/my_skill"
TASK, PLANNED = "press_button:press_button", "press_button:light_and_tidy"


@pytest.fixture(scope="module", autouse=True)
def in_path():
    """The example can be imported, and is forgotten in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        patch.setenv("PYTHONPATH", f"{EXAMPLE}:{EXAMPLE.parents[1]}")  # of worker processes
        for registry in (TASKS, SKILLS):
            patch.setattr(registry, "_entries", dict(registry._entries))
        yield
    sys.modules.pop("press_button", None)
    for name in [name for name in gymnasium.registry if name.startswith("my_skill/")]:
        del gymnasium.registry[name]


def test_two_files_are_enough():
    assert sorted(p.name for p in EXAMPLE.iterdir() if p.is_file()) == [
        "press_button.py", "press_button.yaml",
    ]  # fmt: skip


def test_its_validation_says_whose_module_it_is():
    """Files import nothing: without `env=` the evaluation would know no such environment."""
    settings = load_training("train-skill", [TASK, "validation.every=1000"])
    found = arguments_of(settings, training_env_of(settings))
    assert "env=press_button:my_skill/PressButton-v0" in found and "split=val" in found


def test_its_plan_has_the_time_of_other_homes_however_it_is_named():
    limits = [make_env(PLANNED, depth=False, homes=homes)._max_steps for homes in ("hab", "mixed")]
    assert limits == [3000, 4500]


@pytest.mark.parametrize("homes", ["hab", "procedural"])
def test_a_task_may_share_the_episodes_of_navigate(homes):
    class Nearby(NavigateTask):
        pass

    if "nearby" not in TASKS:
        TASKS.add("nearby", TaskDefinition(
            name="nearby", env_id="my_skill/Nearby-v0", title="Nearby", rules=Nearby,
            episodes=NAVIGATE,
        ))  # fmt: skip
    ours = make_env("navigate", "val", depth=False, homes=homes)
    env = make_env("nearby", "val", depth=False, homes=homes)
    for index in range(2):
        env.reset(options={"index": index})
        ours.reset(options={"index": index})
        target = env.episode.targets[0]
        goal = target.goal if env.episode.start_holding else target.start
        assert math.dist(env.episode.scene.base[:2], goal[:2]) > 3.0
        assert not drive_up(env.sim, env.episode)


def test_its_environment_is_sound():
    import press_button

    env = gymnasium.make("my_skill/PressButton-v0", depth=False, split="val")
    observation, _ = env.reset(options={"index": 1})
    world = env.unwrapped
    assert set(observation) == set(press_button.SENSORS) and env.observation_space.contains(
        observation
    )
    teacher = press_button.teacher(press_button.Robot(world.sim), world.episode)
    rewards, distances, is_over = [], [], False
    while not is_over:
        distances.append(float(np.linalg.norm(observation["marker_rel_pos"])))
        action = np.clip(teacher.act(), -1.0, 1.0).astype(np.float32)
        observation, reward, is_over, _, info = env.step(action)
        rewards.append(reward)
    assert info["success"] and info["is_stop_called"]
    pressed = int(np.argmax(rewards[:-1]))
    assert distances[pressed + 2] < press_button.PRESSED + 0.01  # o_t is of a step earlier
    assert min(distances[:pressed]) > press_button.PRESSED
    assert rewards[-1] == pytest.approx(10.0, abs=0.2) and max(rewards[:-1]) > 4.9
    env.close()


def test_stop_without_having_pressed_fails():
    env = gymnasium.make("my_skill/PressButton-v0", depth=False)
    env.reset(options={"index": 0})
    action = np.zeros(11, np.float32)
    action[-1] = 1.0
    *_, terminated, _, info = env.step(action)
    assert terminated and info["failure"] == "stop_without_success"
    env.close()


@pytest.fixture(scope="module")
def run(in_path, tmp_path_factory):
    """A training of some hundred steps."""
    folder = tmp_path_factory.mktemp("trained") / "press_button"
    overrides = [
        TASK,
        "method=imitation",
        "env_kwargs.depth=false",
        "scheme=serial",
        f"run_dir={folder}",
    ]
    sizes = [
        "policy.lstm_hidden=16",
        "policy.lstm_layers=1",
        "policy.hidden_sizes=32",
        f"run_dir={folder}",
    ]
    steps = ["total_steps=256", "num_envs=2", "num_steps=64", "ppo.num_epochs=1"]
    assert main(last_override_per_key(["train-skill", *overrides, *sizes, *steps])) == 0
    return folder


def test_it_is_trained_by_its_own_recipe(run):
    config = (run / "config.yaml").read_text()
    assert "env: press_button:my_skill/PressButton-v0" in config
    assert json.loads((run / "summary.json").read_text())["total_steps"] == 256


def test_what_a_training_says_at_its_end_can_be_typed(run, tmp_path):
    """In a process that knows nothing yet: what a run's folder says imports nothing."""
    settings = load_training("train-skill", [TASK, f"run_dir={run}"])
    said = what_next(training_env_of(settings), {"best": None}, run)
    commands = {words[0]: words for words in map(shlex.split, re.findall("rearrange (.*)", said))}
    output = tmp_path / "press_button.safetensors"
    export = [word for word in commands["export-skill"] if not word.startswith("output=")]
    command = [sys.executable, "-m", "rearrange", *export, f"output={output}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, output.is_file()) == (0, True), done.stderr
    (env,) = [word for word in commands["evaluate"] if word.startswith("env=")]
    cfg = home_evaluation(load("evaluate", [f"run={run}", env]))
    assert cfg.task.name == TASK  # worker processes know the task by its module alone


def test_one_command_trains_all_its_stages(in_path, tmp_path):
    skills = plan(load("train-skills", [f"skills={TASK}", f"output={tmp_path}"]))
    cells, look, ver = skills["press_button"]
    assert (cells.arguments[:2], cells.task) == (("train-skill", TASK), TASK)
    assert look.settings.warm_start == str(tmp_path / "press_button/cells")
    assert ver.total_steps == 200_000


def test_a_trained_one_is_evaluated_in_worker_processes(run, tmp_path):
    overrides = ["agent=learned", f"checkpoint={run}", "num_episodes=2", "num_workers=1"]
    assert main(["evaluate", f"task={TASK}", *overrides, f"output_dir={tmp_path}"]) == 0
    records = [json.loads(line) for line in (tmp_path / "episodes.jsonl").open()]
    assert [record["index"] for record in records] == [0, 1]
    assert all(record["attempts"][0][0] == "press_button" for record in records)


def test_a_plan_has_its_action_and_no_other_task_knows_it(in_path, capsys):
    assert main(["plan", f"task={PLANNED}", "index=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("press_button(cab_push_point_5)" in line for line in lines) == 1
    assert main(["plan", "task=tidy_house_easy", "index=1"]) == 0
    assert "press_button" not in capsys.readouterr().out


def tidy_but_dark(env):
    """An episode in which all that is left to do is the light."""
    env.reset(options={"index": 1})
    targets = tuple(replace(target, goal=target.start) for target in env.episode.targets)
    return {"episode": replace(env.episode, targets=targets)}


def attempts_until(env, agent, is_enough):
    """The skills that an agent tries until something is so, and the last info."""
    observation, info = env.reset(options=tidy_but_dark(env))
    agent.reset(observation, info)
    is_over = False
    while not is_over and not is_enough(agent):
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        is_over = terminated or truncated
    return agent.attempts, info


def test_the_oracle_carries_the_plan_out(in_path):
    env = make_env(PLANNED, "val", depth=False)
    attempts, info = attempts_until(env, make_agent("oracle", env), lambda agent: False)
    assert attempts == [("navigate", True), ("press_button", True)]
    assert info["success"] and info["is_stop_called"]


def test_the_trained_skill_takes_its_turn_in_a_plan(run):
    """It has learned for 256 steps and gets 5: it does not press, and the chain finds that out."""
    cfg = ChainCfg(
        skills=str(run.parent), oracle_skills=("navigate", "pick", "place"),
        limits={"press_button": 5},
    )  # fmt: skip
    skills = load_skill_set(PLANNED, "tp_srl", cfg)
    assert list(skills.policies) == ["press_button"]
    env = make_env(PLANNED, "val", **skills.env_options)
    agent = make_agent("tp_srl", env, skills=skills, chain=cfg)
    attempts, _ = attempts_until(env, agent, lambda agent: len(agent.attempts) == 2)
    assert attempts == [("navigate", True), ("press_button", False)]


def test_the_command_that_trains_a_missing_one_names_its_module(in_path, tmp_path):
    TASKS.find(TASK)
    with pytest.raises(UserError, match=rf"`rearrange train-skill {TASK} run_dir=runs/press_butt"):
        skill_path("press_button")
    with pytest.raises(UserError, match="`rearrange train-skill pick run_dir=") as missing:
        skill_path("pick", tmp_path)
    assert "press_button" not in str(missing.value)
