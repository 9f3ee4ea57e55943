"""`backend=habitat`: settings, their mistakes, and episodes with a hand-made habitat-lab."""

import ast
from pathlib import Path

import pytest

import rearrange
from rearrange.commands.settings import load
from rearrange.errors import UserError
from rearrange.eval.episode_store import EpisodeStore, settings_of
from rearrange.eval.evaluate import output_folder
from rearrange.eval.habitat.evaluation import film_in_habitat, make_env_and_agent, runner
from rearrange.eval.habitat.lab.tasks import STOCK_TASKS
from rearrange.eval.runner import EpisodeRecord
from rearrange.habitat.episodes import file_name
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.episodes.files import load_episode


def settings(python, data, *more, verb="evaluate"):
    words = {"task": "pick", "agent": "learned", "backend": "habitat"}
    words |= {"habitat.python": python, "habitat.data": data}
    words |= dict(word.split("=") for word in more)
    return load(verb, [f"{name}={value}" for name, value in words.items()])


def test_a_skill_acts_there_unchanged(hand_made, exported_pick):
    cfg = runner(settings(hand_made, exported_pick, "num_episodes=4"))
    env, skill = make_env_and_agent(cfg)
    try:
        steps = []
        records = [
            cfg.run_episode(env, skill, index, lambda: steps.append(1)) for index in range(2)
        ]
    finally:
        env.close()
    assert [record.success for record in records] == [True, False]
    assert [record.failure for record in records] == [None, "dropped"]
    assert [record.steps for record in records] == [4, 4] and len(steps) == 10
    assert records[0].force == 6.0 and records[0].path_length == 1.0
    assert records[1].scene == load_episode("pick", "val", 0, 1).scene.layout_id
    assert records[1].attempts == [("pick", False)]


def test_only_episodes_with_a_film_are_drawn_for_one(hand_made, exported_pick, tmp_path):
    words = settings(hand_made, exported_pick, "num_episodes=3")
    cfg = runner(words, record=1, video_dir=str(tmp_path))
    env, skill = make_env_and_agent(cfg)
    try:
        sizes = []
        for index in (0, 1, 2):
            cfg.run_episode(env, skill, index, lambda: None)
            sizes.append(env._cfg.film_size)
    finally:
        env.close()
    assert sizes == [512, 0, 0]
    assert [path.suffix for path in tmp_path.rglob("*.mp4")] == [".mp4"]


def test_results_of_both_simulators_are_never_mixed(hand_made, exported_pick):
    there = runner(settings(hand_made, exported_pick, "num_episodes=1"))
    told = settings_of(there, {})
    assert told["backend"] == "habitat" and told["habitat"]["habitat-lab"] == "0.3.320260507"
    folder = output_folder(settings(hand_made, exported_pick))
    assert folder.name == "pick-learned-val-habitat"


def test_a_film_is_of_habitats_own_pictures(hand_made, exported_pick, tmp_path):
    cfg = settings(hand_made, exported_pick, "index=2", verb="record")
    record = film_in_habitat(cfg, tmp_path / "film.mp4")
    assert record.index == 2 and (tmp_path / "film.mp4").stat().st_size > 500


@pytest.fixture
def replica_cad(tmp_path):
    """The folder of habitat-lab's own data, with its episodes for Pick."""
    file = tmp_path / "data/datasets/replica_cad/rearrange/v2/val/rearrange_easy.json.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"read there alone")
    return tmp_path


def test_habitat_labs_own_episodes_begin_as_it_draws_them(hand_made, replica_cad, tmp_path):
    (tmp_path / "out").mkdir()
    cfg = runner(settings(hand_made, replica_cad, "num_episodes=2", "habitat.base=stock"))
    assert settings_of(cfg, {})["habitat"]["data"] == "habitat-lab's own"
    EpisodeStore(tmp_path / "out", settings_of(cfg, {}), 2).add(
        EpisodeRecord(index=0, scene="apt_7", success=True, stages={}, failure=None, steps=4,
                      force=0.0, path_length=1.0)
    )  # fmt: skip
    next(replica_cad.rglob("*.json.gz")).write_bytes(b"other episodes")
    other = runner(settings(hand_made, replica_cad, "num_episodes=2", "habitat.base=stock"))
    with pytest.raises(UserError, match=r"results of other settings \(habitat.episodes"):
        EpisodeStore(tmp_path / "out", settings_of(other, {}), 2)
    env, skill = make_env_and_agent(cfg)
    try:
        assert not env._cfg.is_export and env._cfg.base == "stock"
        record = cfg.run_episode(env, skill, 0, lambda: None)
    finally:
        env.close()
    assert record.success and record.scene == "apt_7" and record.targets == {}


@pytest.mark.parametrize(
    "words, line",
    [
        (["agent=oracle"], "agent=oracle acts by a twin of one of our homes"),
        (["split=train"], "is no export .* of pick, train, it lacks data/.*/rearrange_easy"),
        (["task=open_drawer"], "of open_drawer, val, it lacks data/.*/val/in_drawer_1k_100.json"),
        (["num_episodes=11"], "must have 11 episodes of pick, val, it has 10"),
    ],
)
def test_what_their_folder_lacks_is_one_line(words, line, hand_made, replica_cad):
    with pytest.raises(UserError, match=line):
        make_env_and_agent(runner(settings(hand_made, replica_cad, *words)))


@pytest.mark.parametrize(
    "words, line",
    [
        (["task=rearrange_easy", "agent=oracle"], "runs pick, place, .*; got task=rearrange_easy"),
        (
            ["agent=tp_srl", "num_episodes=4"],
            "agent=tp_srl plans: task must be one of .*; got pick",
        ),
        (["habitat.python=/nope"], "^habitat.python must be a Python .* got '/nope': there is no"),
        (["homes=procedural"], "homes=procedural has no use"),
        (["num_episodes=5"], "must have 5 episodes of pick, val, seed 0, it has 4 of seed 0: "),
        (["seed=3", "num_episodes=1"], "seed 3, it has 4 of seed 0: rearrange export-homes"),
        (
            ["split=test"],
            "has no episodes of pick, test: rearrange export-homes .* num_episodes=100 seed=0",
        ),
    ],
)
def test_mistakes_are_one_line(words, line, hand_made, exported_pick):
    with pytest.raises(UserError, match=line):
        runner(settings(hand_made, exported_pick, *words))


@pytest.mark.parametrize(
    "words, line",
    [
        (["backend=bullet"], "backend must be mujoco or habitat, got bullet"),
        (["habitat.python=a"], r"habitat\.\* settings are for backend=habitat"),
        (["backend=habitat", "run=runs/pick"], "instead of run= or env="),
    ],
)
def test_settings_that_do_not_go_together(words, line):
    with pytest.raises(UserError, match=line):
        load("evaluate", words)


def test_an_empty_folder_has_no_episodes(hand_made, tmp_path):
    with pytest.raises(
        UserError, match="has no episodes of pick, val: rearrange export-homes .* num_episodes=3"
    ):
        runner(settings(hand_made, tmp_path, "num_episodes=3"))


def test_a_folder_must_be_named(hand_made):
    with pytest.raises(UserError, match=r"needs habitat\.data=, .*export-homes"):
        runner(load("evaluate", ["task=pick", "agent=learned", "backend=habitat",
                                 f"habitat.python={hand_made}"]))  # fmt: skip


def test_episodes_are_read_from_the_files_that_are_exported():
    for name, stock in STOCK_TASKS.items():
        assert f"{stock.file}.json.gz" == file_name(name)


def test_habs_tasks_last_as_long_there():
    for name, steps in (("tidy_house", 5000), ("prepare_groceries", 4000), ("set_table", 4500)):
        assert STOCK_TASKS[name].max_steps == steps
        with RearrangeEnv(name) as env:
            assert env.task.rules.max_episode_steps == steps


def test_what_runs_there_is_python_3_9_and_numpy():
    files = [*(Path(rearrange.__file__).parent / "eval" / "habitat" / "lab").glob("*.py")]
    assert len(files) > 5
    for path in files:
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        roots = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                roots.add(node.module.split(".")[0])
        assert not roots & {"torch", "mujoco", "numba", "gymnasium", "habitat", "magnum"}, path
