"""Stored actions give the stored states again, and others do not."""

import copy
import json
import shutil

import numpy as np
import pytest

from rearrange.cli import main
from rearrange.errors import UserError
from rearrange.eval.demonstrations.formats import EPISODES, FORMATS, SUMMARY
from rearrange.eval.demonstrations.recorder import RecordingEnv
from rearrange.eval.demonstrations.replay import carry_out, first_difference, replay
from rearrange.tasks.episodes.files import write_episodes
from rearrange.tasks.registry import make_env


@pytest.fixture(scope="module")
def played():
    """(environment, episode, demonstration) of 25 random steps; motors may lead less from the 10th
    on, as a chain of skills has it."""
    env = RecordingEnv(make_env("pick", camera_size=16))
    env.reset(options={"index": 0})
    rng = np.random.default_rng(5)
    for step in range(25):
        env.world.sim.motor_lead = 0.02 if step >= 10 else None
        env.step(np.append(rng.uniform(-1, 1, 10), -1.0))
    return env, env.world.episode, env.demonstration({})


def test_the_same_actions_give_the_same_bits(played):
    env, episode, stored = played
    assert first_difference(stored, carry_out(env, episode, stored)) is None


@pytest.mark.parametrize("step", [0, 12, 24])
def test_an_altered_action_shows_at_its_step(played, step):
    env, episode, stored = played
    altered = copy.deepcopy(stored)
    altered.actions[step, 8] = np.nextafter(altered.actions[step, 8], np.float32(0))
    again = carry_out(env, episode, altered)
    assert first_difference(altered, again) == f"the world differs after {step + 1} steps"


def test_another_lead_of_the_motors_shows(played):
    env, episode, stored = played
    altered = copy.deepcopy(stored)
    altered.motor_leads[:] = 0.0
    assert first_difference(altered, carry_out(env, episode, altered)) is not None


def test_every_kept_array_is_compared(played):
    env, episode, stored = played
    again = carry_out(env, episode, stored)
    names = {"rewards": 8, "success": 8, "depth": 7, "worlds": 7}
    for name, steps in names.items():
        altered = copy.deepcopy(stored)
        values = getattr(altered, name)
        values[7] = ~values[7] if values.dtype == bool else values[7] + 1
        assert first_difference(altered, again).endswith(f"after {steps} steps")
    altered = copy.deepcopy(stored)
    altered.observations["joint"][3, 2] += 1e-7
    assert first_difference(altered, again) == "joint differs after 3 steps"


def test_frames_say_the_step_in_words(played):
    assert set(played[2].steps) == {"pick up the strawberry"} and set(played[2].skills) == {"pick"}


def test_a_column_that_is_cut_or_rounded_is_not_the_same(played):
    env, episode, stored = played
    again = carry_out(env, episode, stored)
    for name in ("rewards", "terminated", "truncated", "success", "worlds", "depth"):
        cut = copy.deepcopy(stored)
        setattr(cut, name, getattr(cut, name)[:10])
        assert first_difference(cut, again).endswith("has another size"), name
    rounded = copy.deepcopy(stored)
    rounded.observations["joint"] = rounded.observations["joint"].astype(np.float16)
    assert first_difference(rounded, again) == "joint is float16, it came as float32"


# --- data sets -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(played, tmp_path_factory):
    """{format: folder} of finished data sets of one episode, 6 steps."""
    env, episode, _ = played
    for package in ("av", "h5py", "minari", "pyarrow"):
        pytest.importorskip(package)
    env.reset(options={"episode": episode})
    rng = np.random.default_rng(6)
    for _ in range(6):
        env.step(np.append(rng.uniform(-1, 1, 10), -1.0))
    facts = {
        "task": "pick", "instruction": "Pick", "agent": "oracle", "split": episode.split,
        "seed": episode.seed, "index": episode.index, "scene": episode.scene.layout_id,
        "success": False, "result": "stopped", "environment": env.world.init_kwargs,
    }  # fmt: skip
    base, folders = tmp_path_factory.mktemp("made"), {}
    for name, form in FORMATS.items():
        piece, folder = base / f"{name}-piece{form.suffix}", base / name
        folder.mkdir()
        form.write_piece(env.demonstration(facts), piece)
        form.assemble([piece], folder)
        write_episodes(folder / EPISODES, [episode])
        counts = {"num_episodes": 1, "num_successes": 0, "num_steps": 6}
        (folder / SUMMARY).write_text(json.dumps(counts | {"format": name}))
        folders[name] = folder
    return folders


@pytest.fixture
def copied(made, tmp_path):
    return lambda name: shutil.copytree(made[name], tmp_path / "set")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_played_back(name, made):
    assert [*replay(made[name])] == [(0, 6, None)]


def in_hdf5(folder, alter):
    import h5py

    for path in (folder / "demonstrations.hdf5", folder / "data/main_data.hdf5"):
        if path.exists():
            with h5py.File(path, "r+") as file:
                alter(file)


def replaced(group, name, change):
    before = group[name][()]
    del group[name]
    group[name] = change(before)


def is_damaged(folder, line=""):
    with pytest.raises(UserError, match=f"episode 0 of {folder} is damaged: .*{line}"):
        list(replay(folder))
    return True


COLUMNS = (
    "actions", "rewards", "terminations", "truncations", "infos/motor_lead", "infos/world",
    "infos/success", "infos/skill", "infos/step", "observations/joint", "observations/head_depth",
)  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_of_hdf5_that_is_no_column_of_an_episode_is_damage(column, copied):
    changes = (
        lambda values: values[:-1], lambda values: values[:0], lambda values: 3.0,
        lambda values: "text", lambda values: np.zeros((6, 3, 2)),
        lambda values: np.concatenate([values, values]),
    )  # fmt: skip
    folder = copied("hdf5")
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    for change in changes:
        in_hdf5(folder, lambda file, change=change: replaced(file["episode_0"], column, change))
        assert is_damaged(folder)
        shutil.copytree(whole, folder, dirs_exist_ok=True)


@pytest.mark.parametrize(
    ("column", "change", "line"),
    [
        ("actions", lambda a: a * np.float32(np.nan), "actions must lie in"),
        ("actions", lambda a: a + np.float32(3), "actions must lie in"),
        ("actions", lambda a: a[:, :5], "an action must have shape"),
        ("infos/motor_lead", lambda a: a * np.nan, "motor_lead must be finite"),
        ("infos/motor_lead", lambda a: a - 1.0, "motor_lead must be finite"),
        ("rewards", lambda a: a.astype("f4"), "rewards must be float64"),
        ("observations/head_depth", lambda a: a + np.float32(1e-5), "head_depth must be"),
        ("observations/head_depth", lambda a: a + np.float32(65536 / 4095), "head_depth must be"),
    ],
)
def test_values_that_no_episode_has_are_damage(column, change, line, copied):
    folder = copied("hdf5")
    in_hdf5(folder, lambda file: replaced(file["episode_0"], column, change))
    assert is_damaged(folder, line)


def set_attribute(name, value, of="episode_0"):
    return lambda file: file[of].attrs.__setitem__(name, value)


@pytest.mark.parametrize(
    ("alter", "line"),
    [
        (set_attribute("total_episodes", 0, "/"), "total_episodes is 0, and there are 1"),
        (set_attribute("total_episodes", 9, "/"), "total_episodes is 9"),
        (set_attribute("total_episodes", "x", "/"), "total_episodes must be a whole number"),
        (set_attribute("total_steps", 5), "total_steps must be 6, got 5"),
        (set_attribute("facts", "["), ""),
        (set_attribute("facts", "[]"), "the value must be an object"),
        (set_attribute("facts", 3), ""),
        (lambda file: file["episode_0"].attrs.__delitem__("facts"), "facts"),
        (lambda file: file["episode_0"].__delitem__("infos"), "infos"),
        (lambda file: file["episode_0"].__setitem__("observations/a", np.zeros((7, 3))), "'a'"),
        (lambda file: file["episode_0"].__setitem__("observations/a", np.zeros((0, 3))), "a must"),
        (lambda file: file["episode_0"].create_group("observations/a"), "a must be an array"),
        (lambda file: file.create_group("episode_1"), "there are 2"),
    ],
)
@pytest.mark.parametrize("name", ["hdf5", "minari"])
def test_counts_and_groups_that_do_not_fit_are_damage(name, alter, line, copied):
    folder = copied(name)
    in_hdf5(folder, alter)
    assert is_damaged(folder, line)


@pytest.mark.parametrize("name", ["hdf5", "minari"])
@pytest.mark.parametrize("sensor", ["joint", "obj_start_sensor", "head_depth"])
def test_a_sensor_that_is_missing_is_a_difference(name, sensor, copied, capsys):
    folder = copied(name)
    in_hdf5(folder, lambda file: file["episode_0/observations"].__delitem__(sensor))
    assert [one.difference for one in replay(folder)] == [f"{sensor} is not stored"]
    assert main(["collect", "verify", f"folder={folder}"]) == 1
    assert "0 of 1 episodes came again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("alter", "line"),
    [
        (lambda facts: facts.pop("environment"), "environment is missing"),
        (lambda facts: facts.update(environment=None), "environment must be an object"),
        (lambda facts: facts["environment"].update(foo=1), "got 'foo'"),
        (lambda facts: facts["environment"].update(task=None), "must be a string"),
        (lambda facts: facts["environment"].update(task="of_the_file:X"), "must be pick"),
        (lambda facts: facts.update(seed=5), "seed must be"),
        (lambda facts: facts.update(success=True), "success must be False"),
    ],
)
@pytest.mark.parametrize("name", ["hdf5", "minari", "lerobot-v2.1"])
def test_facts_are_read_strictly_and_no_module_is_imported(
    name, alter, line, copied, tmp_path, monkeypatch
):
    (tmp_path / "of_the_file.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    folder = copied(name)

    def altered(facts):
        alter(facts)
        return facts

    def in_group(file):
        attributes = file["episode_0"].attrs
        attributes["facts"] = json.dumps(altered(json.loads(attributes["facts"])))

    in_hdf5(folder, in_group)
    if name == "lerobot-v2.1":
        path = folder / "meta/episodes.jsonl"
        row = json.loads(path.read_text())
        path.write_text(json.dumps(row | {"facts": altered(row["facts"])}))
    assert is_damaged(folder, line) and not (tmp_path / "ran").exists()


TABLE = "data/chunk-000/file-000.parquet"
ROWS = "meta/episodes/chunk-000/file-000.parquet"


def in_table(path, alter):
    import pyarrow.parquet as pq

    pq.write_table(alter(pq.read_table(path)), path)


def with_column(name, values):
    return lambda table: table.set_column(table.column_names.index(name), name, [values])


@pytest.mark.parametrize(
    ("file", "alter", "line"),
    [
        (TABLE, lambda table: table.slice(0, 4), "length must be 4, got 6"),
        (TABLE, lambda table: table.slice(0, 0), "length must be 0, got 6"),
        (TABLE, lambda table: table.take([0, 1, 2, 3, 5, 4]), "frame_index must count"),
        (TABLE, with_column("next.reward", ["a"] * 6), "rewards must be float32"),
        (TABLE, with_column("next.reward", [1.0] * 5 + [None]), "rewards must be float32"),
        (TABLE, with_column("next.truncated", [True] * 6), "next.done must be true"),
        (TABLE, with_column("action", [0.0] * 6), "actions must"),
        (TABLE, with_column("action", [[0.0] * 5] * 6), "actions must"),
        (TABLE, with_column("motor_lead", [float("nan")] * 6), "motor_lead must be finite"),
        (TABLE, with_column("skill", [None] * 6), "must be texts"),
        (TABLE, with_column("task_index", [-1] * 6), ""),
        (TABLE, with_column("observation.state", [0.0] * 6), "as many as names"),
        (TABLE, lambda table: table.drop_columns(["world_digest"]), "world_digest"),
        (ROWS, lambda rows: rows.drop_columns(["length"]), "length"),
        (ROWS, with_column("length", [5]), "length must be 6, got 5"),
        (ROWS, with_column("episode_index", [1]), "episode_index must be 0, got 1"),
        (ROWS, with_column("facts", ["[]"]), "the value must be an object"),
        (ROWS, with_column("facts", [None]), ""),
        (ROWS, lambda rows: rows.slice(0, 0), "total_episodes must be 0, got 1"),
    ],
)
def test_a_table_of_lerobot_that_is_none_of_an_episode_is_damage(file, alter, line, copied):
    folder = copied("lerobot")
    in_table(folder / file, alter)
    assert is_damaged(folder, line)
    if file == TABLE:
        shutil.rmtree(folder)
        folder = copied("lerobot-v2.1")
        in_table(folder / "data/chunk-000/episode_000000.parquet", alter)
        assert is_damaged(folder, line)


@pytest.mark.parametrize("name", ["lerobot", "lerobot-v2.1"])
def test_what_lerobots_info_does_not_tell_is_not_passed_over(name, copied):
    folder = copied(name)
    path = folder / "meta/info.json"
    info = json.loads(path.read_text())
    for text in ("{", "[]", "{}", json.dumps(info | {"features": None})):
        path.write_text(text)
        assert is_damaged(folder)
    path.write_text(json.dumps(info | {"total_episodes": 9}))
    assert is_damaged(folder, "total_episodes must be 1, got 9")
    path.write_text(json.dumps(info | {"total_frames": 9}))
    with pytest.raises(UserError, match=f"{folder} is damaged: total_frames must be 6, got 9"):
        list(replay(folder))
    features = {key: f for key, f in info["features"].items() if "images" not in key}
    path.write_text(json.dumps(info | {"features": features}))
    assert [one.difference for one in replay(folder)] == ["head_depth is not stored"]
    state = "observation.state"
    features = info["features"] | {state: info["features"][state] | {"names": ["joint.0"]}}
    path.write_text(json.dumps(info | {"features": features}))
    assert is_damaged(folder, "as many as names")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"num_steps": None}, "num_steps must be a whole number"),
        ({"num_steps": 5}, "num_steps of summary.json must be 6, got 5"),
        ({"num_episodes": "x"}, "num_episodes must be a whole number"),
        ({"num_episodes": 0}, "num_episodes must lie in"),
        ({"num_episodes": 5, "num_steps": 9}, "says 5 episodes, episodes.json.gz has 1"),
        ({"format": ["hdf5"]}, "format must be a string"),
    ],
)
def test_a_summary_that_does_not_fit_is_damage(change, line, copied, capsys):
    folder = copied("minari")
    path = folder / SUMMARY
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert main(["collect", "verify", f"folder={folder}"]) == 2
    assert "is damaged: " in (shown := capsys.readouterr().err) and line in shown


def test_a_data_set_without_its_episodes_is_damage(copied):
    folder = copied("hdf5")
    write_episodes(folder / EPISODES, [])
    with pytest.raises(UserError, match=r"damaged: summary.json says 1 episodes, .* has 0"):
        list(replay(folder))


def test_what_minaris_metadata_counts_is_compared(copied):
    folder = copied("minari")
    path = folder / "data/metadata.json"
    about = json.loads(path.read_text())
    for name in ("total_episodes", "total_steps"):
        path.write_text(json.dumps(about | {name: 9}))
        with pytest.raises(UserError, match=f"damaged: {name} of data/metadata.json must be"):
            list(replay(folder))
