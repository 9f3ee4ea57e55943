"""An evaluation goes on where it was ended, to the same results, and never among others."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import fake_world
import pytest

import rearrange
from rearrange.configs.schema import EvaluateCfg, TaskCfg
from rearrange.errors import UserError
from rearrange.eval.episode_store import _DECIDING, EpisodeStore, _record, settings_of
from rearrange.eval.evaluate import evaluate
from rearrange.eval.runner import (
    EpisodeRecord,
    EpisodeRunnerCfg,
    make_env_and_agent,
    runner_cfg,
)
from rearrange.eval.workers import note_acting
from rearrange.planner.agents.agent import AGENTS
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.home.domain import DOMAINS
from rearrange.skills.deployed.skill_files import write_skill
from rearrange.system.folder_lock import lock_folder
from rearrange.tasks.rules.definition import TASKS
from tests.waits import wait_until

TASK = TaskCfg(name="fake", title="Fake", stage_skills=[["navigate", "pick"], ["place"]])
RECORD = EpisodeRecord(
    index=0, scene="a", success=True, stages={"s": True}, failure=None, steps=3, force=1.5,
    path_length=0.1, attempts=[("pick", True)],
)  # fmt: skip
FIGURES = ("success", "stages", "skills", "failures", "control_steps", "force", "path_length")


def settings(folder, **options):
    values = {"num_episodes": 7, "num_workers": 1, "output_dir": str(folder)} | options
    return EvaluateCfg(task=TASK, **values)


def results(folder):
    """What has to be the same however often it was ended."""
    summary = json.loads((folder / "summary.json").read_text())
    return (folder / "episodes.jsonl").read_bytes(), {name: summary[name] for name in FIGURES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed evaluation."""
    folder = tmp_path_factory.mktemp("whole")
    evaluate(settings(folder), fake_world.make_env_and_agent)
    return folder


def begun(folder, whole, content):
    """A folder as a killed evaluation leaves it, with these bytes in episodes.jsonl."""
    folder.mkdir()
    (folder / "settings.json").write_bytes((whole / "settings.json").read_bytes())
    (folder / "episodes.jsonl").write_bytes(content)
    return folder


def test_a_failed_evaluation_goes_on_with_what_it_kept(tmp_path, whole, capsys):
    cfg = settings(tmp_path / "out", renderer=str(tmp_path / "mark"), max_restarts=0)
    with pytest.raises(UserError, match="exit code -9"):
        evaluate(cfg, fake_world.make_dying_world)  # in episode 2, once
    summary = evaluate(cfg, fake_world.make_dying_world)
    assert "kept 2 of 7 episodes" in capsys.readouterr().out
    assert summary["kept_episodes"] == 2 and results(tmp_path / "out") == results(whole)


def test_what_is_no_whole_line_is_run_again(tmp_path, whole, capsys):
    lines = (whole / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    wrong = lines[3].replace(b'"steps": 5', b'"steps": "5"')
    content = lines[5] + b"\xff\x00{]\n" + wrong + lines[0] + b"[1]\n{}\n" + lines[1][:-20]
    folder = begun(tmp_path / "out", whole, content)
    evaluate(settings(folder), fake_world.make_env_and_agent)
    out = capsys.readouterr().out
    assert "kept 2 of 7 episodes" in out
    assert "episodes.jsonl: 4 (lines 2, 3, 5, 6); their episodes run again" in out
    assert results(folder) == results(whole)


def test_an_unfinished_last_line_is_run_again_without_a_word(tmp_path, whole, capsys):
    lines = (whole / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    folder = begun(tmp_path / "out", whole, lines[0] + lines[2][:-5])
    evaluate(settings(folder), fake_world.make_env_and_agent)
    out = capsys.readouterr().out
    assert "kept 1 of 7 episodes" in out and "damaged" not in out
    assert results(folder) == results(whole)


@pytest.mark.parametrize("acting", [[5], [{}], [{"threads": 1}], [None], ["avx2"]])
def test_settings_with_wrong_facts_of_the_processor_are_damaged(tmp_path, whole, acting):
    folder = begun(tmp_path / "out", whole, (whole / "episodes.jsonl").read_bytes())
    content = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps(content | {"acting": acting}))
    with pytest.raises(UserError, match="holds a damaged settings.json"):
        evaluate(settings(folder), fake_world.make_env_and_agent)


def test_more_episodes_are_added_and_all_of_them_are_not_run_again(tmp_path, whole, capsys):
    evaluate(settings(tmp_path, num_episodes=3), fake_world.make_env_and_agent)
    evaluate(settings(tmp_path), fake_world.make_env_and_agent)
    assert "kept 3 of 7" in capsys.readouterr().out
    before = (tmp_path / "summary.json").read_bytes()
    evaluate(settings(tmp_path), fake_world.make_broken_world)  # would fail in any episode
    assert "kept all 7" in capsys.readouterr().out
    assert (tmp_path / "summary.json").read_bytes() == before and results(tmp_path) == results(
        whole
    )


def test_results_of_other_settings_are_refused_and_left_alone(tmp_path, whole):
    folder = begun(tmp_path / "out", whole, (whole / "episodes.jsonl").read_bytes())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for option, message in (
        ({"seed": 1}, "seed 0, now 1"),
        ({"split": "test"}, "split 'val', now 'test'"),
        ({"max_failures": 1}, "max_failures 20, now 1"),
        ({"looks": "none"}, "looks 'privileged', now 'none'"),
        ({"num_episodes": 6}, "7 episodes, more than num_episodes=6"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            evaluate(settings(folder, **option), fake_world.make_env_and_agent)
        assert "choose another folder" in str(caught.value) and "\n" not in str(caught.value)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    for text in ("{", "[]", '{"settings": 3, "acting": []}'):
        (folder / "settings.json").write_text(text)
        with pytest.raises(UserError, match="holds a damaged settings.json"):
            evaluate(settings(folder), fake_world.make_env_and_agent)
    (folder / "settings.json").unlink()
    with pytest.raises(UserError, match="holds results without settings.json"):
        evaluate(settings(folder), fake_world.make_env_and_agent)


def test_a_folder_in_which_nothing_came_about_takes_other_settings(tmp_path, whole):
    with pytest.raises(UserError, match="unknown split"):
        evaluate(settings(tmp_path, split="nowhere"), fake_world.make_env_and_agent)
    evaluate(settings(tmp_path), fake_world.make_env_and_agent)
    assert results(tmp_path) == results(whole)


def test_a_folder_that_is_removed_meanwhile_comes_back_with_all_that_it_needs(tmp_path, whole):
    folder = tmp_path / "out"
    evaluate(settings(folder, record=0), fake_world.make_removing_world)
    assert results(folder) == results(whole)
    evaluate(settings(folder), fake_world.make_env_and_agent)  # takes it for whole
    assert results(folder) == results(whole)


def test_files_count_by_what_is_in_them_and_so_does_the_program(tmp_path):
    def of(path, **more):
        chain = ChainCfg(skills=str(tmp_path))
        world = EpisodeRunnerCfg(
            task="pick", agent="learned", split="val", seed=0, checkpoint=str(path), chain=chain
        )
        return settings_of(world, {"rearrange": "1"}) | more

    one, same, other = (tmp_path / name for name in ("one", "same", "other"))
    for path, text in ((one, "a"), (same, "a"), (other, "b")):
        path.write_text(text)
    assert "home_file" not in of(one)
    EpisodeStore(tmp_path, of(one), 1).add(RECORD)
    assert EpisodeStore(tmp_path, of(same), 1).records == {0: RECORD}
    with pytest.raises(UserError, match=r"another trained_skills\.pick"):
        EpisodeStore(tmp_path, of(other), 1)
    with pytest.raises(UserError, match="the program has changed since"):
        EpisodeStore(tmp_path, of(one, code="0"), 1)


def test_the_users_own_code_counts_and_so_does_all_of_ours_that_acts(tmp_path, monkeypatch):
    """A module's file, or all files of its package: an edited agent acts otherwise."""
    (tmp_path / "lone_agent.py").write_text("import its_helper\nclass Lone: pass")
    (tmp_path / "its_helper.py").write_text("def help():\n    import its_deeper_helper")
    (tmp_path / "its_deeper_helper.py").write_text("STEPS = 1")
    (tmp_path / "my_lab").mkdir()
    for name in ("__init__", "agents", "planning"):
        (tmp_path / f"my_lab/{name}.py").write_text("class Own: pass")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(AGENTS, "_entries", dict(AGENTS._entries))

    def of(agent):
        return settings_of(EpisodeRunnerCfg(task="pick", agent=agent, split="val", seed=0), {})

    edited = (
        ("lone_agent:Lone", "lone_agent"),
        ("lone_agent:Lone", "its_deeper_helper"),
        ("my_lab.agents:Own", "my_lab/planning"),
    )
    for number, (agent, file) in enumerate(edited):
        folder = tmp_path / f"results{number}"
        folder.mkdir()
        EpisodeStore(folder, of(agent), 1).add(RECORD)
        assert EpisodeStore(folder, of(agent), 1).records == {0: RECORD}
        with open(tmp_path / f"{file}.py", "a") as code:
            code.write("\nSTEPS = 2")
        module = agent.partition(":")[0].partition(".")[0]
        with pytest.raises(UserError, match=rf"results of other settings \({module} has changed"):
            EpisodeStore(folder, of(agent), 1)
    assert "modules" not in of("oracle")
    root = Path(rearrange.__path__[0])
    found = {path.relative_to(root).as_posix() for part in _DECIDING for path in root.glob(part)}
    assert {"registries.py", "eval/trained_env.py", "workloads/skill_chain.py"} <= found


def test_a_planning_domain_of_ones_own_counts(tmp_path, monkeypatch):
    for registry in (TASKS, DOMAINS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    pddl = tmp_path / "mine.pddl"
    pddl.write_text("(define (domain mine))")
    DOMAINS.add("mine", replace(DOMAINS[TASKS["tidy_house"].domain], pddl=pddl))
    TASKS.add("own", replace(TASKS["tidy_house"], name="own", env_id="test/O-v0", domain="mine"))

    def of(task):
        return settings_of(EpisodeRunnerCfg(task=task, agent="oracle", split="val", seed=0), {})

    EpisodeStore(tmp_path, of("own"), 1).add(RECORD)
    assert EpisodeStore(tmp_path, of("own"), 1).records == {0: RECORD}
    pddl.write_text("(define (domain mine) (:predicates))")
    with pytest.raises(UserError, match="the domain's file has changed since"):
        EpisodeStore(tmp_path, of("own"), 1)
    assert "domain_file" not in of("tidy_house") | of("pick")


def test_a_skill_that_changes_while_it_is_evaluated_ends_the_evaluation(make_skill, tmp_path):
    """As a worker finds that replaces a lost one: two skills would make one rate."""
    skill, path = make_skill("pick"), tmp_path / "pick.safetensors"
    write_skill(skill, path)
    pick = TaskCfg(name="pick", title="Pick")
    runner = runner_cfg(EvaluateCfg(task=pick, agent="learned", skills=str(tmp_path)))
    make_env_and_agent(runner)[0].close()
    for tensor in skill.weights.values():
        tensor.zero_()
    write_skill(skill, path)
    with pytest.raises(
        UserError, match=r"pick has changed since this evaluation began: .*pick\.saf"
    ):
        make_env_and_agent(runner)


def test_results_in_a_home_of_a_file_are_of_that_content(tmp_path):
    def of(home, text):
        home.write_text(text)
        cfg = EvaluateCfg(task=TaskCfg(name="pick", title="Pick"), homes=str(home))
        return settings_of(runner_cfg(cfg), {"rearrange": "1"})

    flat = (Path(__file__).parents[2] / "examples" / "flat.json").read_text()
    home = tmp_path / "home.json"
    EpisodeStore(tmp_path, of(home, flat), 2).add(RECORD)
    assert EpisodeStore(tmp_path, of(home, flat), 2).records == {0: RECORD}
    with pytest.raises(UserError, match="the home's file has changed since"):
        EpisodeStore(tmp_path, of(home, flat + " "), 2)


def test_an_evaluation_ends_where_the_home_has_changed_since_it_began(tmp_path):
    runner = EpisodeRunnerCfg(
        task="open_fridge", agent="oracle", split="val", seed=0, home_file="0" * 64,
        homes=str(Path(__file__).parents[2] / "examples" / "flat.json"),
    )  # fmt: skip
    with pytest.raises(UserError, match=r"flat\.json has changed since this evaluation"):
        make_env_and_agent(runner)


def test_a_folder_is_written_by_one_evaluation_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("rearrange.system.folder_lock.LEAVING_S", 0.0)
    with lock_folder(tmp_path), pytest.raises(UserError, match="is in use by process"):
        evaluate(settings(tmp_path), fake_world.make_env_and_agent)


def test_what_skills_acted_with_is_kept_each_kind_once(tmp_path):
    seen = []
    processor = {"cpu_capability": "AVX2", "onednn_bfloat16": False}
    for threads in (1, 1, 2):
        note_acting({"record": {}, "acting": processor | {"threads": threads}}, seen)
    note_acting({"record": {}, "acting": None}, seen)
    assert seen == [processor | {"threads": 1}, processor | {"threads": 2}]
    store = EpisodeStore(tmp_path, {}, 1)
    store.acts_with(seen[:1])
    store.add(RECORD)
    EpisodeStore(tmp_path, {}, 1).acts_with(seen)
    assert EpisodeStore(tmp_path, {}, 1).acting == seen


MAIN = """
import sys
import fake_world
from rearrange import cli
from rearrange.eval import evaluate

if __name__ == "__main__":
    evaluate.make_env_and_agent, evaluate.check_names = fake_world.make_short_world, print
    words = ["evaluate", "num_episodes=60", "num_workers=2", "output_dir=" + sys.argv[1]]
    sys.exit(cli.main(words))
"""


@pytest.mark.slow
def test_kills_at_any_moment_change_no_byte(tmp_path):
    (tmp_path / "main.py").write_text(textwrap.dedent(MAIN))
    path = f"{Path(__file__).parents[2]}{os.pathsep}{Path(__file__).parent}"

    def start(folder):
        command = [sys.executable, str(tmp_path / "main.py"), str(folder)]
        return subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL
        )

    def num_lines(folder):
        file = folder / "episodes.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def has_come_to(run, folder, goal):
        return run.poll() is not None or num_lines(folder) >= goal

    assert start(tmp_path / "whole").wait(600) == 0
    rng = random.Random(0)
    for number in range(4):
        folder, store = tmp_path / str(number), 0
        for turn in range(5):
            run, goal = start(folder), store + rng.randint(0, 8)  # of 60
            wait_until(partial(has_come_to, run, folder, goal), limit_s=600.0)
            time.sleep(rng.uniform(0.0, 0.3))  # at any moment of the next episode
            run.send_signal(signal.SIGKILL if (number + turn) % 2 else signal.SIGTERM)
            assert run.wait(60) in (-signal.SIGKILL, -signal.SIGTERM, 143)
            assert num_lines(folder) >= store
            store = num_lines(folder)
        assert start(folder).wait(600) == 0
        assert results(folder) == results(tmp_path / "whole")


def test_lines_from_before_records_named_their_things_are_read_and_wrong_names_are_not():
    values = RECORD.to_json()
    values["targets"] = {"any_targets|0": ["024_bowl", "a", "b"]}
    assert _record(json.dumps(values)).targets == values["targets"]
    older = {name: values[name] for name in values if name not in ("targets", "last_step")}
    assert _record(json.dumps(older)) == RECORD
    for wrong in ({"x": ["024_bowl"]}, {"x": ["a", "b", 3]}, {"x": "abc"}, []):
        assert _record(json.dumps(values | {"targets": wrong})) is None
    for wrong in ({"last_step": None}, {"steps": -5}, {"index": True}, {"scene": "\ud800"}):
        assert _record(json.dumps(values | wrong)) is None
