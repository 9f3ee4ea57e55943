"""Every YAML file composes into its dataclass, and every mistake is one clear line."""

import pytest
import yaml

from rearrange.configs.load import CONFIG_DIR, group_options, load
from rearrange.configs.schema import VERB_CONFIGS, BenchCfg, EvaluateCfg
from rearrange.errors import UserError

NEEDED = {
    "bench": ["sim"],
    "episodes": ["check", "file=a.json.gz"],
}


@pytest.mark.parametrize("verb", VERB_CONFIGS)
def test_every_verb_composes_with_its_defaults(verb):
    assert isinstance(load(verb, NEEDED.get(verb, [])), VERB_CONFIGS[verb])


@pytest.mark.parametrize("task", group_options("task"))
def test_every_task_file_composes_and_bears_its_name(task):
    cfg = load("evaluate", [f"task={task}"]).task
    assert cfg.name == task
    known = set(group_options("task"))
    assert all(skill in known for skills in cfg.stage_skills for skill in skills)


def test_every_yaml_file_belongs_to_a_verb_or_a_group():
    files = {path.relative_to(CONFIG_DIR).as_posix() for path in CONFIG_DIR.rglob("*.yaml")}
    verbs = {f"{verb}.yaml" for verb in VERB_CONFIGS}
    tasks = {f"task/{name}.yaml" for name in group_options("task")}
    assert files == verbs | tasks
    assert all(isinstance(yaml.safe_load((CONFIG_DIR / file).read_text()), dict) for file in files)


def test_task_files_are_the_registered_tasks():
    registry = pytest.importorskip("rearrange.tasks.registry")
    assert set(group_options("task")) == set(registry.TASKS)


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
    "verb, words, message",
    [
        ("evaluate", ["taks=pick"], "evaluate has no setting 'taks': did you mean 'task'?"),
        ("evaluate", ["task=tidy"], "unknown task 'tidy': did you mean 'tidy_house'?"),
        ("evaluate", ["task=../list"], "unknown task '../list': choose from "),
        ("evaluate", ["task"], "expected key=value after 'evaluate', got 'task'"),
        ("evaluate", ["num_episodes=many"], "num_episodes must be an integer, got 'many'"),
        ("evaluate", ["num_episodes=1.5"], "num_episodes must be an integer, got '1.5'"),
        ("evaluate", ["num_episodes=0"], "num_episodes must be at least 1, got 0"),
        ("evaluate", ["num_episodes="], "num_episodes must be an integer, got ''"),
        ("evaluate", ["episode_timeout_s=nan"], "episode_timeout_s must be a number, got 'nan'"),
        ("evaluate", ["seed=-1"], "seed must not be negative, got -1"),
        ("evaluate", ["output_dir="], "output_dir must not be empty"),
        ("evaluate", ["output_dir=${oc.env:HOME}"], "output_dir must not contain"),
        ("evaluate", ["+task=pick"], "evaluate has no setting '+task': did you mean 'task'?"),
        ("record", ["output=film.gif"], "output must end in .mp4, got film.gif"),
        ("record", ["index=-1"], "index must not be negative, got -1"),
        ("plan", ["domain=a.pddl"], "domain and problem go together"),
        ("view", ["port=70000"], "port must lie in [0, 65535], got 70000"),
        ("bench", [], "bench needs a word after it"),
        ("bench", ["everything"], "unknown bench 'everything': choose from sim"),
        ("episodes", ["check"], "episodes check needs file=FILE.json.gz"),
    ],
)
def test_mistakes_are_one_clear_line(verb, words, message):
    with pytest.raises(UserError) as caught:
        load(verb, words)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
