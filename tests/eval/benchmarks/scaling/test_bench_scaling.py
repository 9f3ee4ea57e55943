"""The bench of ranks: what is read from them, its bars and mistakes, and one short real run."""

import json
import shutil
from dataclasses import asdict, replace

import imageio.v2 as imageio
import pytest

from rearrange import cli
from rearrange.commands.settings import load
from rearrange.configs.benches import BenchScalingCfg
from rearrange.errors import UserError
from rearrange.eval.benchmarks.scaling import bench_scaling
from rearrange.eval.benchmarks.scaling import rank as scaling_rank
from rearrange.eval.benchmarks.scaling.measure import Measured, check_settings, read_answers
from rearrange.eval.benchmarks.scaling.rank import RankJob
from rearrange.eval.benchmarks.scaling.workload import workload_of

CFG = BenchScalingCfg(
    num_envs=2, num_steps=2, num_rollouts=1, draws=2, ranks=[1, 8], simulated_ranks=[8, 32],
    ways="ver,nover,ddppo",
)  # fmt: skip
GOOD = Measured(
    rate=0.0, rates_alone=[], rollout_s=5.0, collect_s=4.3, stopped=0.5, stale=0.1, error_s=0.1,
    all_reduce_s=0.01, own_cores=0.1, all_cores=0.2,
)  # fmt: skip


def line(step, time_s, **others):
    names = ("speed/collect_s", "speed/learn_s", "ver/preempt_share", "ver/preempt_error_s")
    return {"step": step, "time_s": time_s, "ver/fraction_stale": 0.0} | {
        name: others.get(name.rpartition("/")[2]) for name in names
    }


def answer(path, lines, marks):
    path.write_text(json.dumps({"lines": lines, "marks": marks, "all_reduce_s": 0.02}))
    return path


def test_figures_of_ranks_leave_out_the_warm_up(tmp_path, monkeypatch):
    monkeypatch.setattr("rearrange.eval.benchmarks.scaling.measure.num_cores", lambda: 2)
    marks = [[0, 0, 0], [10, 1, 2], [14, 1.4, 4], [20, 2, 12]]
    lines = [line(100, 9.0), line(200, 10.0, collect_s=50.0, preempt_share=1.0)]
    lines += [
        line(300, 14.0, collect_s=2.0, preempt_share=0.0, preempt_error_s=-1.0),
        line(380, 20.0, collect_s=4.0, preempt_share=0.5, preempt_error_s=0.5),
    ]
    cfg = replace(CFG, warmup_rollouts=2)
    first = answer(tmp_path / "a", lines, marks)
    found = read_answers([first, answer(tmp_path / "b", [], marks)], cfg, is_alone=False)
    assert (found.rate, found.rates_alone) == (18.0, [])  # 180 steps in 10 s
    assert (found.rollout_s, found.collect_s, found.stopped) == (5.0, 3.0, 0.25)
    assert (found.error_s, found.all_reduce_s) == (0.75, 0.02)
    assert found.own_cores == pytest.approx(0.1)  # two ranks, each 1 s in 10 s, on two cores
    lines = [dict(line, step=2 * line["step"]) for line in lines]
    found = read_answers([first, answer(tmp_path / "b", lines, marks)], cfg, is_alone=True)
    assert found.rate == 27.0 and found.rates_alone == [18.0, 36.0]


def fake_measure(cfg, num_ranks, ways, root, notify):
    alone = {"ver": 10.0, "nover": 7.0, "ddppo": 4.0}
    share = {"ver": 0.9, "nover": 0.7, "ddppo": 0.5}
    found = {}
    for way in ways:
        rates = [alone[way]] * max(cfg.ranks) if num_ranks == 1 else []
        rate = alone[way] * (1.0 if num_ranks == 1 else share[way] * num_ranks)
        found[way] = replace(GOOD, rate=rate, rates_alone=rates)
        notify(num_ranks, way, found[way])
    return found


@pytest.mark.parametrize("changes", [{}, {"own_cores": 0.4}, {"all_cores": 0.99}], ids=str)
def test_bars_table_and_plot(tmp_path, monkeypatch, capsys, changes):
    def measured(*args):
        notify = args[-1]
        found = fake_measure(*args[:-1], lambda *_: None)
        for way in found:
            found[way] = replace(found[way], **changes)
            notify(args[1], way, found[way])
        return found

    monkeypatch.setattr(bench_scaling, "measure", measured)
    # the fake figures are of no workload that could be simulated
    monkeypatch.setattr(
        bench_scaling,
        "errors",
        lambda found, *_: {r: dict.fromkeys(w, -0.2) for r, w in found.items()},
    )
    output = tmp_path / "new" / "scaling.json"
    assert bench_scaling.run(replace(CFG, output=str(output))) == 1
    results = json.loads(output.read_text())
    assert results["measured"]["8"]["ver"]["efficiency"] == pytest.approx(0.9)
    bars = results["bars"]
    assert bars["8 ranks: ver / nover"]["value"] == pytest.approx(0.9 * 10 / (0.7 * 7))
    assert bars["8 ranks: ver / ddppo"]["value"] == pytest.approx(0.9 * 10 / (0.5 * 4))
    assert not bars["simulation: 1 - its largest error"]["is_met"]
    assert [name for name, bar in bars.items() if not bar["is_met"]] == [
        "simulation: 1 - its largest error"
    ]
    assert set(results["simulated"]["32"]) == {"ver", "nover", "ddppo"}
    assert imageio.imread(output.with_suffix(".png")).shape[0] > 300
    printed = capsys.readouterr()
    assert printed.out.count("MISSED") == 1 and "The simulation assumes:" in printed.out
    assert ("this machine is a limit" in printed.err) == bool(changes)


@pytest.mark.parametrize(
    "settings, arguments",
    [
        ({"ways": "ver,impala"}, "ways must be some of"),
        ({"ways": ","}, "ways must be some of"),
        ({"output": "{}/a.png"}, "plot stands beside it"),
        ({"output": "{}/file/a.json"}, "cannot"),
        ({"keep_dir": "{}/file"}, "cannot"),
    ],
)
def test_a_mistake_is_one_clear_line_before_anything_runs(
    tmp_path, monkeypatch, settings, arguments
):
    monkeypatch.setattr(bench_scaling, "measure", None)
    (tmp_path / "file").write_text("")
    settings = {name: value.format(tmp_path) for name, value in settings.items()}
    with pytest.raises(UserError, match=arguments) as caught:
        bench_scaling.run(replace(CFG, **settings))
    assert "\n" not in str(caught.value)


def test_figures_of_other_settings_are_not_mixed_in(tmp_path):
    check_settings(CFG, tmp_path)
    check_settings(replace(CFG, ranks=[1, 2, 4], output="a.json"), tmp_path)  # what may differ
    with pytest.raises(UserError, match="measured with num_envs=2, now it is 4"):
        check_settings(replace(CFG, num_envs=4), tmp_path)
    for damaged in ("{", "[]"):
        (tmp_path / "settings.json").write_text(damaged)
        with pytest.raises(UserError, match="holds no settings: choose another keep_dir"):
            check_settings(CFG, tmp_path)
        assert (tmp_path / "settings.json").read_text() == damaged


def test_the_workload_is_r1_in_slow_motion():
    work = workload_of(BenchScalingCfg(rank_spread=0.0, episode_spread=0.0))
    assert work.straggler.base_step_s == pytest.approx(8 * 0.02) and work.num_envs == 16
    assert work.num_steps * work.straggler.base_step_s == pytest.approx(128 * 0.02)
    assert (work.straggler.episode_steps, work.inference_s) == (25, 0.016)
    assert (work.learning_s, work.straggler.reset_low_s) == (0.5, 0.15)


def test_the_command_measures_ranks_and_goes_on_where_it_was(tmp_path, capsys):
    arguments = [
        "ranks=2", "ways=ver", "num_envs=2", "num_steps=4", "num_rollouts=2", "warmup_rollouts=1",
        "slow_motion=2", "gradient_size=100", "simulated_ranks=[]", "draws=2",
        f"keep_dir={tmp_path / 'kept'}", f"output={tmp_path / 'scaling.json'}",
    ]  # fmt: skip
    # A rank by itself, in this process; what it saw has to do for both ranks.
    folder = tmp_path / "kept" / "ranks_0001_of_0002"
    folder.mkdir(parents=True)
    settings = asdict(load("bench scaling", arguments))
    job = RankJob(settings, ["ver"], str(folder), is_alone=True)
    (folder / "job.json").write_text(json.dumps(asdict(job)))
    scaling_rank.main(str(folder / "job.json"))
    shutil.copy(job.answer("ver", 0), job.answer("ver", 1))
    # Two ranks below torchrun.
    assert cli.main(["bench", "scaling", *arguments]) in (0, 1)  # the machine may be busy
    assert capsys.readouterr().err.count("steps/s") == 2
    results = json.loads((tmp_path / "scaling.json").read_text())
    for ranks in ("1", "2"):
        ver = results["measured"][ranks]["ver"]
        assert ver["rate"] > 0.0 and ver["rollout_s"] > ver["collect_s"] > 0.0
    assert len(results["measured"]["1"]["ver"]["rates_alone"]) == 2
    assert results["measured"]["2"]["ver"]["all_reduce_s"] > 0.0
    logs = list((tmp_path / "kept").glob("*/log.txt"))
    before = [log.stat().st_mtime_ns for log in logs]
    assert cli.main(["bench", "scaling", *arguments]) in (0, 1)
    assert [log.stat().st_mtime_ns for log in logs] == before and len(logs) == 1
    assert json.loads((tmp_path / "scaling.json").read_text())["measured"] == results["measured"]
