"""Every YAML file composes into its dataclass, and every mistake is one clear line."""

from dataclasses import asdict

import pytest

from rearrange.commands.overrides import GROUPS, setting_kinds
from rearrange.commands.settings import load, verb_defaults, yaml_file
from rearrange.configs.benches import BenchCfg
from rearrange.configs.choices import CONFIG_DIR, group_options, yaml_content
from rearrange.configs.schema import EvaluateCfg
from rearrange.configs.verbs import VERBS, config_class
from rearrange.errors import UserError
from rearrange.tasks.rules.names import SKILL_TASKS

NEEDED = {
    "bench": ["sim"],
    "collect verify": ["folder=a"],
    "episodes": ["check", "file=a.json.gz"],
    "export-skill": ["run=runs/pick", "output=pick.safetensors"],
    "export-homes": ["output=outputs/habitat"],
    "homes": ["check"],
    "import-episodes": ["file=a.json.gz"],
    "launch": ["skills=pick"],
    "plot": ["runs/a"],
    "compare": ["out/a", "out/b"],
    "train": ["env=CartPole-v1"],
    "train-skill": ["pick"],
}
A = ["env=CartPole-v1"]
OF_RUNNING = ("scheme", "given")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_composes_with_its_defaults(verb):
    assert isinstance(load(verb, NEEDED.get(verb, [])), config_class(verb))


@pytest.mark.parametrize("task", group_options("task"))
def test_every_task_composes_and_bears_its_name(task):
    cfg = load("evaluate", [f"task={task}"]).task
    assert cfg.name == task
    known = set(group_options("task"))
    assert all(skill in known for skills in cfg.stage_skills for skill in skills)


def test_every_yaml_file_belongs_to_a_group_or_is_read_as_a_whole():
    files = {path.relative_to(CONFIG_DIR).as_posix() for path in CONFIG_DIR.rglob("*.yaml")}
    groups = [group for group in GROUPS if group != "task"]  # those are in no file
    options = {f"{group}/{name}.yaml" for group in groups for name in group_options(group)}
    assert files == {"verbs.yaml", "stages.yaml", "space_defaults.yaml", "speeds.yaml"} | options
    for verb, values in yaml_file("verbs.yaml").items():
        known = setting_kinds(config_class(verb))
        assert all(verb_defaults(verb)[name] == value for name, value in values.items())
        assert set(values) <= set(known)


@pytest.mark.parametrize("skill", group_options("skill"))
def test_every_skill_file_composes_and_names_its_registered_task(skill):
    cfg = load("train-skill", [skill]).skill
    assert (cfg.name, cfg.env) == (skill, SKILL_TASKS[skill])
    assert set(group_options("skill")) == set(SKILL_TASKS)


def test_policy_files_are_the_presets():
    from rearrange.skills.network.policy_cfg import PRESETS

    assert set(group_options("policy")) == {"auto", *PRESETS}
    for name, preset in PRESETS.items():
        policy = asdict(load("train", ["env=CartPole-v1", f"policy={name}"]).policy)
        assert policy.pop("name") == name
        assert policy == asdict(preset)


def test_a_skill_is_trained_with_the_settings_of_the_paper():
    """hab-spec 7.8, the column of the VER paper."""
    cfg = load("train-skill", ["pick"])
    ppo, entropy, returns = cfg.ppo, cfg.entropy, cfg.returns
    assert (ppo.learning_rate, cfg.schedule) == (2.5e-4, "cosine")
    assert (ppo.num_epochs, ppo.num_minibatches, ppo.clip_coef) == (3, 2, 0.2)
    assert (ppo.value_coef, ppo.clip_values, ppo.normalize_advantages) == (0.5, False, False)
    assert (returns.gamma, returns.gae_lambda) == (0.99, 0.95)
    assert (cfg.num_envs, cfg.num_steps, cfg.max_importance_weight) == (16, 128, 1.0)
    assert (entropy.learned, entropy.initial, entropy.target) == (True, 1e-3, 0.0)
    assert (entropy.minimum, entropy.maximum) == (1e-4, 1.0)
    assert (cfg.mode, cfg.policy.name, cfg.observation_delay) == ("ver", "small", 1)


def test_settings_of_parts_are_written_with_a_dot():
    arguments = ["env=CartPole-v1", "policy=mlp", "ppo.clip_coef=1", "ppo.target_kl=none"]
    arguments += ["policy.hidden_sizes=32,16", "policy.encoder.image_size=32", "info_keys=[]"]
    cfg = load("train", arguments)
    assert cfg.ppo.clip_coef == 1.0 and isinstance(cfg.ppo.clip_coef, float)
    assert cfg.ppo.target_kl is None
    assert cfg.policy.hidden_sizes == [32, 16] and cfg.policy.activation == "tanh"
    assert cfg.policy.encoder.image_size == 32 and cfg.policy.lstm_layers == 0
    assert cfg.info_keys == []


def test_words_for_the_environment_are_read_as_what_they_look_like():
    arguments = ["a=3", "b=0.5", "c=true", "d=none", "e=x,y", "f=1e-3", "g=[1]"]
    kwargs = load("train", ["env=A-v0", *(f"env_kwargs.{word}" for word in arguments)]).env_kwargs
    assert kwargs == {"a": 3, "b": 0.5, "c": True, "d": None, "e": "x,y", "f": 1e-3, "g": "[1]"}
    assert type(kwargs["a"]) is int and type(kwargs["c"]) is bool


def test_a_scheme_says_how_it_is_run_and_nothing_else():
    plain = load("train", A)
    for scheme, expected in (
        ("serial", {"serial": True}), ("ver", {}), ("ranks", {}), ("ray", {})
    ):  # fmt: skip
        cfg = load("train", [*A, f"scheme={scheme}"])
        assert (cfg.scheme.name, cfg.scheme.world_size) == (scheme, 1 + (scheme == "ranks"))
        others = {name: value for name, value in asdict(cfg).items() if name not in OF_RUNNING}
        assert (
            others | expected
            == {name: value for name, value in asdict(plain).items() if name not in OF_RUNNING}
            | expected
        )
    assert load("train", [*A, "scheme=ranks", "scheme.world_size=5"]).scheme.world_size == 5


def test_launch_passes_on_what_it_does_not_know():
    cfg = load("launch", ["skills=pick,place", "seeds=3,4", "ppo.clip_coef=0.1", "policy=paper"])
    assert (cfg.skills, cfg.seeds) == (["pick", "place"], [3, 4])
    assert cfg.forwarded == ["ppo.clip_coef=0.1", "policy=paper"]


def test_runs_are_bare_words():
    assert load("plot", ["runs/a", "x=time", "runs/lr=3"]).runs == ["runs/a", "runs/lr=3"]
    assert load("plot", ["runs=a,b"]).runs == ["a", "b"]
    typed = ["runs/lr,1", "[b]", "c d"]
    assert load("compare", typed[:2]).runs == typed[:2] and load("plot", typed).runs == typed
    with pytest.raises(UserError, match="runs is given twice"):
        load("plot", ["a", "runs=b"])


@pytest.mark.parametrize(
    "path",
    ["a b", "a,b", "{x}", "[y]", "it's", 'say "hi"', "back\\slash\\", "a=b", "(1)", "\\'", "~"],
)
def test_any_path_survives_the_override_grammar(path):
    assert load("evaluate", [f"output_dir={path}"]).output_dir == path


def test_words_become_typed_values():
    cfg = load("evaluate", ["num_episodes=3", "episode_timeout_s=1e2", "split=test", "task=pick"])
    assert isinstance(cfg, EvaluateCfg)
    assert (cfg.num_episodes, cfg.episode_timeout_s, cfg.split) == (3, 100.0, "test")
    assert cfg.task.title == "Pick"
    assert isinstance(load("bench", ["sim", "output=null"]), BenchCfg)
    assert load("bench", ["sim", "output=null"]).output is None


@pytest.mark.parametrize(
    "verb, arguments, message",
    [
        ("evaluate", ["taks=pick"], "evaluate has no setting 'taks': did you mean 'task'?"),
        ("evaluate", ["task=tidy"], "unknown task 'tidy': did you mean 'tidy_house'?"),
        ("evaluate", ["task=../list"], "unknown task '../list': choose from "),
        ("evaluate", ["task"], "expected key=value after 'evaluate', got 'task'"),
        ("evaluate", ["num_episodes=many"], "num_episodes must be an integer, got 'many'"),
        ("evaluate", ["num_episodes=1.5"], "num_episodes must be an integer, got '1.5'"),
        ("evaluate", ["num_episodes=9999999"], "num_episodes must be at most 1,000,000"),
        ("evaluate", ["num_episodes=0"], "num_episodes must be at least 1, got 0"),
        (
            "train",
            ["env=CartPole-v1", "info_keys=[success,length]"],
            "info_keys must not be return",
        ),
        ("evaluate", ["num_episodes="], "num_episodes must be an integer, got ''"),
        ("evaluate", ["episode_timeout_s=nan"], "episode_timeout_s must be a number, got 'nan'"),
        ("evaluate", ["seed=-1"], "seed must not be negative, got -1"),
        (
            "plan",
            ["index=9007199254740993"],
            "index must be at most 9007199254740992, got 9007199254740993",
        ),
        (
            "passport",
            ["seed=9007199254740993"],
            "seed must be at most 9007199254740992, got 9007199254740993",
        ),
        (
            "episodes",
            ["what=generate", "seed=9007199254740993", "output=a.json.gz"],
            "seed must be at most 9007199254740992",
        ),
        ("homes", ["what=check", "output=x.html"], "homes check writes no file: leave out output="),
        ("evaluate", ["output_dir="], "output_dir must not be empty"),
        ("evaluate", ["output_dir=${oc.env:HOME}"], "output_dir must not contain"),
        ("evaluate", ["+task=pick"], "evaluate has no setting '+task': did you mean 'task'?"),
        ("record", ["output=film.avi"], "output must end in .mp4 or .gif, got film.avi"),
        ("record", ["index=-1"], "index must not be negative, got -1"),
        ("plan", ["domain=a.pddl"], "domain and problem go together"),
        ("view", ["port=70000"], "port must lie in [0, 65535], got 70000"),
        ("bench", [], "bench needs a word after it"),
        ("bench", ["everything"], "unknown bench 'everything': choose from sim, homes, t"),
        ("bench homes", ["threads=0"], "threads must be at least 1, got 0"),
        ("bench trainers", ["num_envs=0"], "num_envs must be at least 1, got 0"),
        ("bench scaling", ["ranks=0,2"], "ranks must lie in [1, 4096], got 0"),
        ("bench scaling", ["ranks=many"], "ranks must be an integer, got 'many'"),
        ("bench scaling", ["slow_motion=0"], "slow_motion must be positive, got 0"),
        ("episodes", ["check"], "episodes check needs file=FILE.json.gz"),
        ("evaluate", ["task.name=pick"], "evaluate has no setting 'task.name'"),
        ("plot", [], "plot needs a word after it"),
        ("plot", ["a", "x=steps"], "x must be step or time, got steps"),
        ("train", [], "train needs env=...; see `rearrange train --help`"),
        ("train", ["envv=A"], "train has no setting 'envv': did you mean 'env'?"),
        ("train", ["gamma=1"], "train has no setting 'gamma': did you mean 'returns.gamma'?"),
        ("train", ["learning_rate=1"], "train has no setting 'learning_rate': did you mean 'ppo."),
        ("train", ["ppo.clip=1"], "train has no setting 'ppo.clip': did you mean 'ppo.clip_coef'?"),
        ("train", ["qqxyzzy=1"], "train has no setting 'qqxyzzy': `rearrange train --help` lists"),
        ("train", ["given=a"], "train has no setting 'given'"),
        ("train", ["policy.name=a"], "train has no setting 'policy.name'"),
        ("train", ["ppo=1"], "ppo has several settings: ppo.clip_coef, "),
        ("train", ["ppo.clip_coef=x"], "ppo.clip_coef must be a number, got 'x'"),
        ("train", ["ppo.num_epochs=1.5"], "ppo.num_epochs must be an integer, got '1.5'"),
        ("train", ["serial=2"], "serial must be true or false, got '2'"),
        ("train", ["policy=smal"], "unknown policy 'smal': did you mean 'small'?"),
        ("train", ["policy.hidden_sizes=8,x"], "policy.hidden_sizes must be an integer, got 'x'"),
        ("train", ["policy.hidden_sizes="], "policy.hidden_sizes must be a list such as a,b,c"),
        ("train", ["env_kwargs=1"], "set the values of env_kwargs one by one: env_kwargs.NAME=VAL"),
        ("train", ["env_kwargs.a.b=1"], "train has no setting 'env_kwargs.a.b'"),
        ("train", [*A, "ppo.clip_coef=-1"], "clip_coef must lie in (0, 1e+09], got -1.0"),
        ("train", [*A, "returns.gamma=1.5"], "gamma must lie in [0, 1], got 1.5"),
        ("train", [*A, "mode=verr"], "mode must be one of ver, nover, ddppo, htsrl, async, batc"),
        ("train", [*A, "resume=yes"], "resume must be one of no, auto; got 'yes'"),
        ("train", [*A, "total_steps=0"], "total_steps must be at least 1, got 0"),
        ("train", [*A, "ppo.num_minibatches=7"], "num_envs x num_steps (8 x 128 = 1024) must be "),
        ("train", [*A, "serial=true", "mode=async"], "serial=true runs ver, nover and ddppo"),
        ("train-skill", [], "train-skill needs one of close_drawer, close_fridge, navigate, "),
        ("train", [*A, "scheme=rank"], "unknown scheme 'rank': did you mean 'ranks'?"),
        ("train", [*A, "scheme.world_size=2"], "scheme=ver is one process: scheme.world_size=2"),
        ("train", [*A, "scheme=ranks", "scheme.world_size=0"], "scheme.world_size must be at "),
        ("train", [*A, "scheme=ray", "scheme.num_gpus=2"], "scheme.num_gpus must be 0 or 1"),
        ("train", [*A, "scheme=ray", "scheme.num_cpus=0"], "scheme.num_cpus must be positive"),
        ("train", [*A, "scheme=ranks", "mode=async"], "mode=async has one process that collects"),
        ("train", [*A, "scheme=ray", "mode=batched"], "mode=batched has one process that collects"),
        ("train", [*A, "workers.python=p", "mode=batched"], "mode=batched steps the environments"),
        ("train", [*A, "batched.num_threads=2"], "batched.NAME settings are for mode=batched"),
        ("train", [*A, "mode=batched", "batched.num_groups=0"], "batched.num_groups must be at l"),
        (
            "train",
            [*A, "mode=batched", "num_envs=4", "batched.num_groups=5"],
            "batched.num_groups must be at most num_envs (4), got 5",
        ),
        (
            "train",
            [*A, "mode=batched", "stagger.how=cut"],
            "stagger.NAME settings are for start_mode=staggered, got start_mode=off",
        ),
        ("train", [*A, "scheme=serial", "mode=async"], "serial=true runs ver, nover and ddppo"),
        ("evaluate", ["scheme=ranks"], "scheme must be local or ray, got ranks"),
        ("evaluate", ["address=head:6379"], "address=head:6379 is for scheme=ray"),
        ("launch", [], "launch needs skills=... or envs=..."),
        ("launch", ["skills=pick", "seeds=0,-1"], "seeds must not be negative"),
        ("launch", ["skills=pick", "seeds=1,1"], "seeds must not name anything twice"),
        ("train-skill", ["pik"], "unknown skill 'pik': did you mean 'pick'?"),
        ("train-skill", ["pick", "skill.env=A"], "train-skill has no setting 'skill.env'"),
        ("train-skill", ["pick", "action_space=al"], "action_space must be one of full, skill, "),
        ("train-skill", ["pick", "observation_delay=2"], "observation_delay must be 0 or 1, got 2"),
        ("train-skill", ["pick", "camera_size=4"], "camera_size must be at least 8, got 4"),
    ],
)
def test_mistakes_are_one_clear_line(verb, arguments, message):
    with pytest.raises(UserError) as caught:
        load(verb, arguments)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "episode_timeout_s=1e9"],
        ["evaluate", "output_dir=outputs/\udcff"],
        ["doctor", "timeout_s=1e9"],
        ["train", "env=CartPole-v1", "num_steps=1000000000000000"],
        ["train", "env=CartPole-v1", "ranks_timeout_s=1e300"],
        ["train", "env=CartPole-v1", "workers.step_timeout_s=1e300"],
        ["train", "env=CartPole-v1", "ppo.clip_coef=1e308"],
        ["train", "env=CartPole-v1", "policy.vector_size=1000000000000"],
        ["train", "env=CartPole-v1", "run_dir=runs/\udcff"],
    ],
)
def test_numbers_that_no_machine_can_take_and_bytes_are_one_line(arguments):
    with pytest.raises(UserError) as caught:
        load(arguments[0], arguments[1:])
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


def test_a_changed_file_is_read_again_and_nobody_shares_what_was_read(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("stages: [{name: ver}]\n")
    yaml_content(path)["stages"].append("of one caller")
    assert yaml_content(path) == {"stages": [{"name": "ver"}]}
    path.write_text("stages: [{name: cells}]\n")
    assert yaml_content(path) == {"stages": [{"name": "cells"}]}
    path.unlink()
    with pytest.raises(UserError, match="cannot read .*recipe.yaml: No such file"):
        yaml_content(path)
