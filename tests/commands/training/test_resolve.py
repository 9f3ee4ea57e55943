"""Which settings a training has: compared with recorded ones, and of what they are merged."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest

from rearrange.commands.overrides import group_options, read
from rearrange.commands.settings import flattened, load
from rearrange.commands.training.recipes import read_recipes, recipes_of
from rearrange.commands.training.resolve import chain, load_training, stage_layer
from rearrange.commands.training.training_env import run_folder, training_env_of
from rearrange.configs.stages import Stage
from rearrange.errors import UserError
from rearrange.tasks.gym_factory import read_spaces
from rearrange.tasks.rules.names import SKILL_TASKS
from rearrange.tasks.rules.rulebook import make_task

# Made by the code of commit 0db3c6e, whose recipes were arguments of a command line: each setting
# under its dotted name, `made_with` what the environment is made with. "usual" holds unless a case
# says otherwise. Since then imitation and what follows it choose the precision by the machine.
RECORDED = json.loads((Path(__file__).parents[2] / "data/resolved_settings.json").read_text())
NAMES = list(RECORDED["cases"])


def flat(settings):
    training_env = training_env_of(settings)
    values = {k: v for k, v in asdict(settings).items() if k not in ("given", "skill")}
    folder = str(run_folder(settings, training_env))
    return flattened(values | {"made_with": training_env.kwargs, "env": training_env.env_id}) | {
        "folder": folder
    }


def differences(settings, expected):
    values = flat(settings)
    return {
        key: (values.get(key, "absent"), value)
        for key, value in (RECORDED["usual"] | expected).items()
        if values.get(key, "absent") != value
    }


@pytest.mark.parametrize("case", [name for name in NAMES if "#" not in name])
def test_settings_are_those_of_before(case):
    verb, *arguments = case.split()
    assert not differences(load_training(verb, arguments), RECORDED["cases"][case])


@pytest.mark.parametrize(
    "case", sorted({n.partition(" #")[0] for n in RECORDED["cases"] if "#" in n})
)
def test_so_are_those_of_imitation_and_then_ver(case):
    verb, *arguments = case.split()
    stages = chain(read(verb, [*arguments, "run_dir=RUN"]))
    expected = [v for name, v in RECORDED["cases"].items() if name.startswith(f"{case} #")]
    assert len(stages) == len(expected)
    for settings, values in zip(stages, expected, strict=True):
        assert not differences(settings, values)


def shared(**stages):
    recipes = {"all": {}, "fresh": {}, "imitation": {}, "blind": {}, "tuning": {}}
    return {"recipes": recipes, "stages": stages}


def own(*stages, **others):
    return {"name": "pick", "env": "A", "stages": {"laptop": [*stages]}, **others}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (own({"name": "a", "total_step": 3}), "stage a: no key 'total_step': did you mean 'total_"),
        (own({"name": "a", "settings": {"ppo": {"clip": 1}}}), "stage a: no setting 'ppo.clip': d"),
        (own({"name": "a", "settings": {"method": "ver"}}), "stage a: no setting 'method': "),
        (own({"name": "a", "settings": {"num_envs": "8"}}), "a: num_envs must be int, got '8'"),
        (own({"name": "a", "settings": {"ppo": 3}}), "stage a: no setting 'ppo'"),
        (own({"name": "a", "settings": {"overlap": 1}}), "a: overlap must be bool, got 1"),
        (own({"name": "a", "settings": {"guide": {"policy_turn": [1, "b"]}}}), "policy_turn must"),
        (own({"name": "a", "total_steps": 0}), "total_steps must be at least 1, got 0"),
        (own({"name": "a", "method": "magic"}), "method must be one of imitation, ver, average"),
        (
            own({"name": "a", "like": "lok"}),
            "stage a: no stage 'lok' to copy from: did you mean 'lo",
        ),
        (own({"name": "a"}, {"name": "a"}), "names must be unique and valid folder names, got a"),
        (own({"name": "../a"}), "names must be unique and valid folder names, got ../a"),
        (own({"name": "a", "warm_start": "b"}, {"name": "b"}), "a needs 'b', which is no earlier"),
        (own({"name": "a", "method": "average"}), "average names the stages of method=average"),
        (own(recipes={"blnd": {}}), "recipes: no key 'blnd': did you mean 'blind'?"),
        (own(recipes={"blind": {"settings": {"a": 1}}}), "recipe blind: no setting 'a'"),
        (own(stage={}), "no key 'stage': did you mean 'stages'?"),
    ],
)
def test_a_mistake_in_a_stage_is_one_line_that_says_where(values, message):
    with pytest.raises(UserError) as caught:
        read_recipes("skill/pick.yaml", values, shared(look={}))
    assert str(caught.value).startswith("skill/pick.yaml") and message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stage_that_is_like_another_says_only_what_differs():
    look = {"total_steps": 5, "settings": {"ppo": {"num_epochs": 3}}, "env_kwargs": {"depth": True}}
    differs = {"name": "b", "like": "look", "settings": {"ppo": {"learning_rate": 0.5}}}
    (stage,) = read_recipes("skill/pick.yaml", own(differs), shared(look=look)).stages["laptop"]
    assert (stage.name, stage.total_steps, stage.env_kwargs) == ("b", 5, {"depth": True})
    assert stage.settings == {"ppo": {"num_epochs": 3, "learning_rate": 0.5}}


def test_a_stage_may_use_the_old_name_of_a_setting():
    look = {"settings": {"policy": {"base_frame_vectors": True}}}
    differs = {"name": "b", "like": "look", "settings": {"policy": {"has_levelled": False}}}
    (stage,) = read_recipes("skill/pick.yaml", own(differs), shared(look=look)).stages["laptop"]
    assert stage.settings == {"policy": {"base_frame_vectors": False}}
    with pytest.raises(UserError, match="policy.base_frame_vectors is given twice"):
        read("train-skill", ["pick", "policy.has_levelled=1", "policy.base_frame_vectors=0"])


@pytest.mark.parametrize("skill", group_options("skill"))
def test_every_stage_of_every_skill_begins_with_the_network_of_an_earlier_one(skill):
    for preset, stages in recipes_of(skill).stages.items():
        assert stages, preset
        weights, envs, before, firsts = {}, {}, None, []  # by the name of a stage
        for stage in stages:
            if stage.method == "average":
                assert set(stage.average) < {other.name for other in stages}
                weights[stage.name] = f"{stage.name}/mean.safetensors"
                seeing = [n for n in stage.average if envs[n].kwargs.get("depth", True)]
                envs[stage.name] = envs[[*seeing, *stage.average][0]]
            else:
                arguments = [skill, f"stage={stage.name}", f"preset={preset}"]
                cfg = load_training("train-skill", [*arguments, "run_dir=OUT/" + stage.name])
                assert cfg.total_steps == stage.total_steps or stage.total_steps is None
                first = before if stage.warm_start == "before" else stage.warm_start
                known = first is not None and first != "none"
                assert cfg.warm_start == (f"OUT/{weights[first]}" if known else None)
                firsts.append(cfg.first_episode)
                weights[stage.name], envs[stage.name] = stage.name, training_env_of(cfg)
                assert envs[stage.name].env_id == SKILL_TASKS[skill]
            before = stage.name
        # none takes a million episodes in one environment: no stage has those of another
        assert firsts[0] == 0 and all(b - a >= 1e6 for a, b in pairwise(firsts))
        # the last one's environment is as it comes, but for handles and the way over the floor at
        # laptops, which a skill makes itself of HAB's own sensors
        last = envs[stages[-1].name]
        seen, _ = read_spaces(last.env_id, last.kwargs)
        kwargs = {"camera_size": last.kwargs["camera_size"]}
        kwargs["handle_sensors"] = preset == "laptop" and make_task(skill).handle_sensors != ()
        kwargs["floor_way"] = preset == "laptop" and skill in ("navigate", "pick", "place")
        assert seen == read_spaces(last.env_id, kwargs)[0]


def test_a_stage_after_a_mean_begins_with_its_file():
    stages = [Stage(name="a"), Stage(name="b"), Stage(name="m", method="average", average=["a"])]
    stages.append(Stage(name="c"))
    given = read("train-skill", ["pick", "run_dir=OUT/c"])
    assert stage_layer(stages[3], stages, given)["warm_start"] == "OUT/m/mean.safetensors"
    with pytest.raises(UserError, match="stage m averages weights: `train-skills` does it"):
        stage_layer(stages[2], stages, given)


def test_the_users_words_stand_over_the_stage_and_this_over_the_recipe():
    arguments = ["open_drawer", "stage=cells_ver", "run_dir=OUT/cells_ver"]
    cfg = load_training("train-skill", arguments)
    assert (cfg.method, cfg.warm_start) == ("ver", "OUT/cells")
    assert (cfg.ppo.learning_rate, cfg.policy.base_frame_vectors) == (1.5e-4, True)  # of the stage
    assert (cfg.num_steps, cfg.entropy.target) == (256, -6.1)  # of what the stage is like
    assert (cfg.ppo.num_minibatches, cfg.ppo.target_kl) == (8, 0.03)  # of the recipe
    ranges = {"ranges": "camera", "depth": False, "homes": "mixed", "success_scale": 0.9}
    assert cfg.env_kwargs == {"starts": "chain", "handle_sensors": True} | ranges
    given = ["total_steps=9", "ppo.num_epochs=1", "env_kwargs.starts=task", "warm_start=A"]
    cfg = load_training("train-skill", [*arguments, *given])
    assert (cfg.total_steps, cfg.ppo.num_epochs, cfg.warm_start) == (9, 1, "A")
    assert cfg.env_kwargs["starts"] == "task" and cfg.ppo.learning_rate == 1.5e-4


def test_imitation_and_the_ver_after_it_have_episodes_of_their_own():
    for camera_stage in (False, True):
        arguments = ["pick", "method=imitation_ver", f"camera_stage={camera_stage}", "run_dir=OUT"]
        for first in (0, 7):
            given = read("train-skill", [*arguments, f"first_episode={first}"])
            expected = [first + 1_000_000 * i for i in range(2 + camera_stage)]
            assert [stage.first_episode for stage in chain(given)] == expected


def test_overrides_do_not_stay_for_the_next_settings():
    first = load_training("train-skill", ["pick", "ppo.clip_coef=0.25", "policy.lstm_hidden=96"])
    second = load_training("train-skill", ["pick"])
    assert (first.ppo.clip_coef, first.policy.lstm_hidden) == (0.25, 96)
    assert second.ppo.clip_coef != 0.25 and second.policy.lstm_hidden != 96


def test_the_paper_s_stage_is_as_the_paper_says():
    """VER, table A1: the schema's defaults, and 500 M steps."""
    plain = load("train-skill", ["pick", "policy=paper"])
    cfg = load_training("train-skill", ["pick", "stage=ver", "preset=paper"])
    assert cfg.total_steps == 500_000_000 and cfg.warm_start is None
    assert (cfg.ppo, cfg.policy, cfg.returns) == (plain.ppo, plain.policy, plain.returns)
    assert cfg.run_dir == "runs/skills-paper-0/pick/ver"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["close_fridge", "stage=cells_vr"],
            "laptop has no stage 'cells_vr': did you mean 'cells_ver'?",
        ),
        (["pick", "preset=paper"], "preset= is for one stage, stage=NAME"),
        (["pick", "preset=papr", "stage=ver"], "preset must be one of laptop, paper, got papr"),
        (["pick", "method=imitation", "action_space=skill"], "needs action_space=full"),
    ],
)
def test_mistakes_of_the_user_are_one_line(arguments, message):
    with pytest.raises(UserError) as caught:
        load_training("train-skill", arguments)
    assert message in str(caught.value) and "\n" not in str(caught.value)
