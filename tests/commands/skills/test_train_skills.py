"""`rearrange train-skills`: two stages of a skill, interrupted and gone on with; its messages."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from rearrange import cli
from rearrange.commands.settings import load
from rearrange.commands.skills.plan import all_steps, plan
from rearrange.commands.skills.rates import Rates
from rearrange.commands.skills.report import curves, runs_of, write_report
from rearrange.commands.skills.stage_outputs import (
    begin,
    evaluation_folder,
    is_written,
    origin_of,
    skill_file,
    tasks,
    turned,
    write_mean,
)
from rearrange.commands.skills.status_table import StatusTable
from rearrange.commands.skills.train_skills import results, with_limit
from rearrange.commands.training.speeds import usual_rate
from rearrange.configs.stages import Stage
from rearrange.errors import UserError
from rearrange.skills.deployed.skill_files import find_skill, read_skill, write_skill
from rearrange.skills.deployed.trained_skills import weights_digest
from rearrange.system.stop_signals import StopSignals
from tests.waits import LIMIT_S, wait_until

TINY = ["serial=true", "num_envs=2", "num_steps=32", "num_threads=1", "camera_size=16"]
TINY += ["policy.encoder.base_width=4", "policy.encoder.image_size=16", "policy.lstm_hidden=16"]
TINY += ["policy.vector_size=8", "policy.hidden_sizes=16"]
COMMAND = ["train-skills", "skills=close_fridge", "stop_after=cells_ver", *TINY]


def steps_of(path):
    return [json.loads(line)["step"] for line in path.open()] if path.exists() else []


def test_stages_are_trained_one_after_another_and_gone_on_with(tmp_path, capsys):
    out, overrides = tmp_path / "out", [*COMMAND, f"output={tmp_path / 'out'}"]
    command = [sys.executable, "-m", "rearrange", *overrides, "total_steps=1000000"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    metrics = out / "close_fridge/cells/metrics.jsonl"
    try:
        wait_until(lambda: steps_of(metrics), running)
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=LIMIT_S)
    finally:
        running.kill()
    assert running.returncode == 143, errors
    assert errors.splitlines()[-1] == "stopped by SIGTERM: saved; the same command goes on"
    assert json.loads((metrics.parent / "summary.json").read_text())["stopped_by"] == "SIGTERM"
    assert not (out / "close_fridge/cells_ver").exists()
    before, memory = steps_of(metrics), metrics.parent / "checkpoints/memory"
    assert any(memory.iterdir())

    total = before[-1] + 64
    assert cli.main([*overrides, f"total_steps={total}"]) == 0
    assert steps_of(metrics) == [*before, total]  # nothing is trained twice
    assert steps_of(out / "close_fridge/cells_ver/metrics.jsonl")[-1] == total
    assert not memory.exists()  # of a stage that is over
    said = capsys.readouterr().out
    assert "2 of 2 stages in " in said and "memory: some " in said
    learned = f"task=close_fridge agent=learned skills={out}"
    assert f"rearrange evaluate {learned}" in said
    assert f"rearrange plot {out}/close_fridge/cells {out}/close_fridge/cells_ver" in said
    origin = read_skill(out / "close_fridge.safetensors").origin
    assert [(stage["name"], stage["steps"]) for stage in origin["stages"]] == [
        ("cells", total), ("cells_ver", total)
    ]  # fmt: skip
    assert (origin["recipe"], origin["seed"]) == ("train-skills preset=laptop", 0)
    page = (out / "report.html").read_text()
    cells = re.findall(r"<td [^>]*>([^<]*)", page)
    assert ["close_fridge", "cells_ver", "ver"] in [cells[i : i + 3] for i in range(len(cells))]

    modified = (out / "close_fridge/cells_ver/summary.json").stat().st_mtime_ns
    written = (out / "close_fridge.safetensors").stat().st_mtime_ns
    assert cli.main([*overrides, f"total_steps={total}"]) == 0  # all of it is done
    assert (out / "close_fridge/cells_ver/summary.json").stat().st_mtime_ns == modified
    assert (out / "close_fridge.safetensors").stat().st_mtime_ns == written
    assert cli.main([*overrides, f"total_steps={total}", "seed=1"]) == 2
    assert "choose another output" in capsys.readouterr().err

    # an earlier stage's weights do not replace those of the last
    given = [word for word in overrides if not word.startswith("stop_after=")]
    assert cli.main([*given, "stop_after=cells", f"total_steps={total}"]) == 0
    assert f"{out}/close_fridge-cells.safetensors" in capsys.readouterr().out
    first = read_skill(out / "close_fridge-cells.safetensors")
    assert [stage["name"] for stage in first.origin["stages"]] == ["cells"]
    assert (out / "close_fridge.safetensors").stat().st_mtime_ns == written

    cfg = load("train-skills", [*overrides[1:], f"total_steps={total}"])
    steps, file = plan(cfg)["close_fridge"], out / "close_fridge.safetensors"
    assert is_written(cfg, steps)
    for failed, is_offered in (("ver evaluation", True), ("ver", False), ("evaluation", False)):
        said = results(cfg, {"close_fridge": steps}, {f"close_fridge cells_{failed}": "why"})
        assert (str(file) in said) == is_offered
    skill = read_skill(file)
    bias = {"critic.bias": skill.weights["critic.bias"] + 1.0}
    write_skill(replace(skill, weights=skill.weights | bias), file)
    assert not is_written(cfg, steps)  # the same stages, other weights
    assert cli.main([*overrides, f"total_steps={total + 64}"]) == 1  # of all stages
    captured = capsys.readouterr()
    error = captured.err.splitlines()[-1]
    assert error.startswith(f"close_fridge cells_ver beginning: {steps[1].folder} began with other")
    told = captured.out.splitlines()[-2:]  # its old weights are not offered
    assert told[0].endswith(", failed") and told[1].startswith("report ")
    assert steps_of(steps[1].folder / "metrics.jsonl")[-1] == total  # nothing is built on it
    mean = replace(steps[-1], stage=Stage(name="mean", method="average", average=["cells_ver"]))
    mean = replace(mean, folder=out / "close_fridge/mean", settings=None)
    write_mean(mean, [*steps, mean])
    learned = find_skill(steps[-1].weights).weights
    for name, tensor in find_skill(mean.weights).weights.items():
        if tensor.dtype != torch.float64:  # running statistics keep theirs
            assert (tensor == learned[name].half()).all() or not tensor.is_floating_point()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["skills=pik"], "unknown skill 'pik': did you mean 'pick'?"),
        (
            ["skills=close_fridge", "stop_after=cells_vr"],
            "has no stage 'cells_vr': did you mean 'cells_ver'?",
        ),
        (["skills=pick", "stage=cells_ver"], "train-skills sets stage itself"),
        (["skills=pick", "stop_aftr=cells_ver"], "train-skill has no setting 'stop_aftr'"),
        (["skills=pick", "ppo.clip_coef=-1"], "pick, stage cells: clip_coef must lie in"),
        (["skills=pick,pick"], "skills must not name anything twice"),
        (["skills=pick,json:pick"], "skills must not name anything twice, got json:pick a second"),
        (["preset=phone"], "preset must be one of laptop, paper, got phone"),
        (["evaluate_stages=true"], "evaluate_stages=true needs evaluate_episodes"),
        (["max_hours=-1"], "max_hours must not be negative"),
    ],
)
def test_mistakes_are_found_before_anything_is_started(tmp_path, overrides, message):
    with pytest.raises(UserError) as caught:
        plan(load("train-skills", [f"output={tmp_path}", *overrides]))
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_each_stage_is_a_command_that_anyone_can_type(tmp_path):
    words = ["skills=close_fridge", f"output={tmp_path}", "seed=3", "num_threads=1"]
    steps = plan(load("train-skills", words))["close_fridge"]
    at = [step.stage.name for step in steps].index("cells_ver")
    before, after = steps[at - 1 : at + 1]
    assert after.arguments == (
        "train-skill", "close_fridge", "stage=cells_ver", "preset=laptop", "seed=3",
        "num_threads=1", f"run_dir={tmp_path}/close_fridge/cells_ver", "resume=auto",
    )  # fmt: skip
    assert after.settings.warm_start == str(before.folder)
    assert [step.place for step in steps] == list(range(1, len(steps) + 1))


def test_a_given_first_episode_is_that_of_the_first_stage(tmp_path):
    words = ["skills=close_fridge", f"output={tmp_path}", "first_episode=7"]
    steps = plan(load("train-skills", words))["close_fridge"]
    firsts = [step.settings.first_episode for step in steps if step.settings]
    assert firsts == [7 + 1_000_000 * place for place in range(len(firsts))] and len(firsts) > 2


def test_a_folder_is_of_one_preset_and_seed(tmp_path):
    begin(load("train-skills", [f"output={tmp_path}", "seed=3"]))
    begin(load("train-skills", [f"output={tmp_path}", "seed=3", "skills=pick"]))
    with pytest.raises(UserError, match="choose another output"):
        begin(load("train-skills", [f"output={tmp_path}", "seed=3", "preset=paper"]))


def of_a_run(folder, step, seconds):
    folder.mkdir(parents=True)
    line = {"step": step, "time_s": seconds, "speed/sps": 7.0, "episode/success": 0.5}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")


TABLE = {
    "machine": "a machine", "steps_per_second": {"small_imitation_blind": 100.0},
    "picture_seconds": {},
}  # fmt: skip


def test_the_hours_left_follow_the_measured_rate(tmp_path):
    overrides = [
        "skills=pick,place",
        "stop_after=cells",
        f"output={tmp_path}",
        "total_steps=600000",
    ]
    steps = all_steps(plan(load("train-skills", overrides)))
    rates = Rates(steps, TABLE)
    assert rates.all_left() == 12_000.0  # 1.2 M steps, 100 a second
    assert rates.all_left(jobs=2) == 6_000.0 and rates.all_left(jobs=9) == 6_000.0
    of_a_run(tmp_path / "pick/cells", 100_000, 500.0)
    rates.refresh()
    assert rates.rate(steps[1]) == 200.0  # the other's, which was measured
    assert rates.seconds_left(steps[0]) == 2_500.0 and rates.all_left() == 5_500.0
    line = StatusTable(steps, rates, 1).line(["pick cells"])
    assert line == (
        "pick 1/1 cells: 17% of 600k, 7 steps/s, 41:40 left, success 50% | 2 stages: 1:31:40 left"
    )
    assert (
        "expected: 1.53 hours of training, by steps a second of a machine"
        in StatusTable(steps, rates, 1).table()
    )


def test_a_pause_does_not_count_as_work(tmp_path):
    """Ten updates of 5 s, and ten minutes in which the process was stopped."""
    words = ["skills=pick,place", "stop_after=cells", f"output={tmp_path}"]
    steps = all_steps(plan(load("train-skills", words)))
    of_a_run(steps[0].folder, 0, 0.0)
    lines = [{"step": 1_000 * i, "time_s": 5.0 * i + 600.0 * (i > 5)} for i in range(1, 11)]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (steps[0].folder / "metrics.jsonl").write_text(text)
    rates = Rates(steps, TABLE)
    assert rates.rate(steps[1]) == 200.0  # 600 s more: 15
    assert rates.seconds_left(steps[0]) == (steps[0].total_steps - 10_000) / 200.0
    assert steps[0].standing() == (10_000, 650.0)  # the report tells the wall clock's


def test_one_skill_cannot_be_hurried_by_a_second_job(tmp_path):
    overrides = ["skills=pick,place", f"output={tmp_path}", "total_steps=600000"]
    steps = all_steps(plan(load("train-skills", [*overrides, "stop_after=cells"])))
    of_a_run(tmp_path / "pick/cells", 600_000, 3_000.0)
    assert Rates(steps, TABLE).all_left(jobs=2) == Rates(steps, TABLE).all_left() == 3_000.0


def test_colour_takes_its_time(tmp_path):
    words = ["skills=pick", "stop_after=cells", f"output={tmp_path}", "total_steps=600000"]
    (step,) = all_steps(plan(load("train-skills", [*words, "env_kwargs.rgb=true"])))
    assert Rates([step]).rate(step) == usual_rate(step.settings) < 200.0


def test_a_stage_whose_last_checkpoint_was_not_saved_is_not_over(tmp_path):
    overrides = ["skills=pick", "stop_after=cells", f"output={tmp_path}", "total_steps=128"]
    (step,) = plan(cfg := load("train-skills", overrides))["pick"]
    of_a_run(step.folder, 128, 9.0)
    summary = {"stopped_by": None, "total_steps": 128, "wall_time_s": 9.0}
    for more, is_over in (({"error": "No space left on device"}, False), ({}, True)):
        (step.folder / "summary.json").write_text(json.dumps(summary | more))
        assert (step.summary() is not None) == is_over
    assert str(skill_file(cfg, [step])) not in results(cfg, {"pick": [step]}, {})  # there is none


def test_the_curves_of_stages_follow_one_another(tmp_path):
    overrides = ["stop_after=cells_ver", f"output={tmp_path}", "total_steps=20000"]
    steps = plan(load("train-skills", ["skills=close_fridge", *overrides]))["close_fridge"]
    assert curves(steps) is None
    for step in steps:
        of_a_run(step.folder, 20_000, 50.0)
    assert curves(steps).startswith(b"\x89PNG")
    assert [(run.label, run.lines[-1]["step"]) for run in runs_of(steps)] == [
        ("1 cells", 20_000), ("2 cells_ver", 40_000)
    ]  # fmt: skip


def test_a_stage_is_compared_with_the_one_before_in_the_same_episodes(tmp_path):
    words = ["skills=close_fridge", f"output={tmp_path}", "evaluate_episodes=4"]
    cfg = load("train-skills", words)
    cells, after = plan(cfg)["close_fridge"][:2]
    for step, solved in ((cells, [1, 1, 0, 0]), (after, [0, 1, 1, 1])):
        assert turned(cfg, cells, after) is None
        folder = evaluation_folder(cfg, step)
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text('{"num_episodes": 4}')
        lines = [json.dumps({"index": i, "success": bool(s)}) for i, s in enumerate(solved)]
        (folder / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    assert turned(cfg, cells, after) == (2, 1)


def test_after_so_many_hours_all_is_saved_and_wants_to_be_started_again():
    stop, seen = StopSignals(), []
    look = with_limit(seen.append, stop, max_hours=1e-12)
    look(["pick cells"])
    assert stop.exit_code == 75 and seen == [["pick cells"]]
    stop = StopSignals()
    with_limit(seen.append, stop, max_hours=0.0)(["pick cells"])
    assert not stop.is_set()


def test_what_nobody_has_measured_is_not_promised(tmp_path):
    steps = all_steps(plan(load("train-skills", ["skills=pick", f"output={tmp_path}"])))
    rates = Rates(steps, TABLE)
    assert rates.all_left() is None
    assert "time left not known yet" in StatusTable(steps, rates, 1).line(["pick cells"])
    assert StatusTable(steps, rates, 1).table().splitlines()[-1].startswith("expected: ? hours")


def test_another_number_of_episodes_is_another_evaluation(tmp_path):
    """`evaluate` refuses a folder with more episodes: fewer must not end the training there."""
    folders = []
    for number in (4, 2):
        words = ["skills=pick", f"output={tmp_path}", f"evaluate_episodes={number}"]
        cfg = load("train-skills", words)
        folders.append(evaluation_folder(cfg, plan(cfg)["pick"][0]))
    assert folders[0] != folders[1]


def test_an_evaluation_of_weights_that_are_gone_goes_too(tmp_path, make_skill):
    """Trained anew, a skill is evaluated anew: the report would show the old one's success."""
    cfg = load("train-skills", ["skills=pick", f"output={tmp_path}", "evaluate_episodes=2"])
    steps = plan(cfg)["pick"]
    file, folder = skill_file(cfg, steps), evaluation_folder(cfg, steps[-1])
    outdated, evaluation = tasks(cfg, steps)[-2:]
    assert outdated.is_over() and not evaluation.is_over()
    write_skill(make_skill("pick"), file)
    folder.mkdir(parents=True)
    settings = {"settings": {"trained_skills": {"pick": weights_digest(file)}}, "acting": []}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "summary.json").write_text('{"num_episodes": 2}')
    assert outdated.is_over() and evaluation.is_over()
    write_skill(make_skill("pick", camera_size=32), file)
    assert not outdated.is_over()
    outdated.work()
    assert not folder.exists() and not evaluation.is_over()


def test_what_was_given_beside_the_recipe_is_told_of_each_command(tmp_path):
    for words in (["ppo.clip_coef=0.1"], ["ppo.clip_coef=0.1"], []):
        cfg = load("train-skills", ["skills=pick", f"output={tmp_path}", *words])
        begin(cfg)
    origin = origin_of(cfg, plan(cfg)["pick"])
    assert (origin["overrides_before"], origin["overrides"]) == ([["ppo.clip_coef=0.1"]], [])
    assert "ppo.clip_coef=0.1, then none" in write_report(cfg, plan(cfg), {})
