"""A trained policy of any environment: evaluated, filmed, and found again by the same command."""

import json
import shutil

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

import rearrange
from rearrange import cli
from rearrange.commands.settings import load
from rearrange.configs.schema import EvaluateCfg
from rearrange.errors import UserError
from rearrange.eval.trained_env import (
    ReturnRecord,
    TrainedRunnerCfg,
    home_evaluation,
    make_env_and_policy,
    summarise,
)
from rearrange.skills.deployed.trained_skills import weights_digest

TRAIN = ["train", "total_steps=128", "num_steps=64", "num_envs=2", "scheme=serial"]


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    """The folder of a short training run."""
    run_dir = tmp_path_factory.mktemp("runs") / "cartpole"
    assert cli.main([*TRAIN, "env=CartPole-v1", f"run_dir={run_dir}"]) == 0
    return run_dir


class Painted(gymnasium.Env):
    """Its reward is 0.5 a step, 6 steps long; step after step a brighter picture of 33 x 50."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.num_steps += 1
        return np.zeros(2, np.float32), 0.5, self.num_steps == 6, False, {"success": True}

    def render(self):
        return np.full((33, 50, 3), 40 * self.num_steps, np.uint8)


class Rooms(gymnasium.Env):
    """A choice and numbers beside it, of which each step shows others; 8 steps long."""

    observation_space = gymnasium.spaces.Dict(
        room=gymnasium.spaces.Discrete(4), x=gymnasium.spaces.Box(-1.0, 1.0, (3,))
    )
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_steps = 0
        return self._seen(), {}

    def step(self, action):
        self.num_steps += 1
        return self._seen(), float(action), self.num_steps == 8, False, {}

    def _seen(self):
        return {"room": self.num_steps % 4, "x": np.full(3, 0.1 * self.num_steps, np.float32)}


def test_returns_are_those_of_the_environment_whoever_steps_it(cartpole, tmp_path, capsys):
    arguments = [f"run={cartpole}", "num_episodes=4", f"output_dir={tmp_path}"]
    assert cli.main(["evaluate", *arguments, "num_workers=2"]) == 0
    records = [json.loads(line) for line in (tmp_path / "episodes.jsonl").open()]
    policy, env, returns = rearrange.load_skill(cartpole), gymnasium.make("CartPole-v1"), []
    for record in records:
        observation, _ = env.reset(seed=record["seed"])
        policy.reset()
        total, is_over = 0.0, False
        while not is_over:
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
            total, is_over = total + reward, terminated or truncated
        returns.append(total)
    assert [record["total_return"] for record in records] == returns
    assert len({record["seed"] for record in records}) == 4
    summary = json.loads((tmp_path / "summary.json").read_text())
    found, mean = summary["episode_return"], float(np.mean(returns))
    assert found["mean"] == mean and found["low"] < mean < found["high"]
    assert summary["env"] == "CartPole-v1" and summary["success"] is None
    said = capsys.readouterr().out
    assert "95% interval" in said and f"{mean:.5g}" in said
    assert cli.main(["evaluate", *arguments]) == 0
    assert "kept all 4 episodes" in capsys.readouterr().out
    assert cli.main(["evaluate", *arguments, "seed=1"]) == 2
    assert "results of other settings (seed 0, now 1)" in capsys.readouterr().err


def test_who_sees_a_choice_in_a_dict_is_evaluated_with_what_the_environment_gives(tmp_path):
    gymnasium.register("Rooms-v0", Rooms)
    try:
        assert cli.main([*TRAIN, "env=Rooms-v0", f"run_dir={tmp_path / 'run'}"]) == 0
        cfg = TrainedRunnerCfg(run=str(tmp_path / "run"), seed=0)
        env, policy = make_env_and_policy(cfg)
        assert cfg.run_episode(env, policy, 0, lambda: None).steps == 8
        twin, x = make_env_and_policy(cfg)[1], np.full(3, 0.5, np.float32)
        for one in (policy, twin):
            one.reset()
        for room in (0, 3, 1, 2, 2):
            one_hot = np.eye(4, dtype=np.float32)[room]
            assert policy.act({"room": room, "x": x}) == twin.act({"room": one_hot, "x": x})
    finally:
        del gymnasium.registry["Rooms-v0"]


def test_statistics_are_those_of_the_books():
    records = [
        ReturnRecord(index=i, seed=i, total_return=r, steps=10, success=i < 2, truncated=False)
        for i, r in enumerate([1.0, 2.0, 3.0, 4.0, 5.0])
    ]
    summary = summarise(records)
    # Student's t of 4 degrees of freedom, 0.975: 2.776; the standard error is sqrt(2.5 / 5)
    assert summary["episode_return"]["low"] == pytest.approx(3.0 - 2.776 * 0.5**0.5)
    assert summary["episode_return"]["std"] == pytest.approx(2.5**0.5)
    assert summary["success"]["mean"] == 0.4
    assert summary["episode_steps"]["min"] == summary["episode_steps"]["max"] == 10.0


def test_a_film_holds_the_environments_own_pictures(tmp_path, capsys):
    gymnasium.register("Painted-v0", Painted)
    run_dir, path = tmp_path / "run", tmp_path / "film.mp4"
    try:
        assert cli.main([*TRAIN, "env=Painted-v0", f"run_dir={run_dir}"]) == 0
        capsys.readouterr()
        assert cli.main(["record", f"run={run_dir}", f"output={path}"]) == 0
        assert "a return of 3 after 6 steps" in capsys.readouterr().out
        frames = imageio.imread(path)
        assert frames.shape == (7, 34, 50, 3)
        brightness = frames.mean(axis=(1, 2, 3))
        np.testing.assert_allclose(brightness, 40 * np.arange(7), atol=4)
    finally:
        del gymnasium.registry["Painted-v0"]
    assert cli.main(["record", f"run={run_dir}", f"output={path}"]) == 2
    assert "Painted-v0' is not registered" in capsys.readouterr().err


def test_a_run_of_a_skill_is_its_task_with_the_learned_agent(make_skill, tmp_path):
    from rearrange.skills.deployed.skill_files import write_skill

    write_skill(make_skill("pick"), tmp_path / "pick.safetensors")
    cfg = home_evaluation(EvaluateCfg(run=str(tmp_path / "pick.safetensors"), split="test"))
    assert (cfg.task.name, cfg.agent, cfg.split) == ("pick", "learned", "test")
    assert cfg.checkpoint == str(tmp_path / "pick.safetensors") and cfg.run is None


def test_what_the_run_is_of_is_not_said_otherwise(cartpole, make_skill, tmp_path):
    from rearrange.skills.deployed.skill_files import write_skill

    write_skill(make_skill("pick"), path := tmp_path / "pick.safetensors")
    for words, why in (
        ([f"run={path}", "task=set_table"], "was trained for pick: leave out task=set_table"),
        (
            [f"run={path}", "env=CartPole-v1"],
            "was trained in rearrange/Pick-v0, not in CartPole-v1",
        ),
        ([f"run={cartpole}", "task=pick"], "was trained in CartPole-v1: leave out task=pick"),
    ):
        for verb in ("evaluate", "record"):
            with pytest.raises(UserError, match=why):
                home_evaluation(load(verb, words))
    same = load("evaluate", [f"run={path}", "task=pick", "env=rearrange/Pick-v0"])
    assert home_evaluation(same).task.name == "pick"


def test_weights_that_change_meanwhile_end_the_evaluation(cartpole, tmp_path):
    shutil.copytree(cartpole, run := tmp_path / "run")
    cfg = TrainedRunnerCfg(run=str(run), seed=0, weights=weights_digest(run))
    make_env_and_policy(cfg)[0].close()
    arguments = ["env=CartPole-v1", f"run_dir={run}", "resume=auto", "total_steps=256"]
    assert cli.main([*(word for word in TRAIN if word != "total_steps=128"), *arguments]) == 0
    with pytest.raises(UserError, match="run has changed since this evaluation began"):
        make_env_and_policy(cfg)


def test_what_does_not_go_together_is_one_line(cartpole, tmp_path):
    for options, why in (
        ({"run": str(cartpole), "agent": "tp_srl"}, "agent cannot be combined with run="),
        ({"run": str(cartpole), "split": "test"}, "split cannot be combined with run="),
        ({"env": "CartPole-v1"}, "env=CartPole-v1 goes with run="),
        ({"run": str(tmp_path)}, "has no checkpoint"),
    ):
        with pytest.raises(UserError, match=why):
            home_evaluation(EvaluateCfg(**options))
    shutil.copytree(cartpole, tmp_path / "copy")
    assert home_evaluation(EvaluateCfg(run=str(tmp_path / "copy"))).run == str(tmp_path / "copy")
