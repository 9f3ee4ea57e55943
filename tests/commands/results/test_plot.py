"""Learning curves are means over seeds, and a run that cannot be drawn is one line."""

import io
import json

import numpy as np
import pytest

from rearrange.commands.results.plot import draw, mean_curve, run
from rearrange.commands.results.training_runs import read_run, running_mean, told_apart
from rearrange.configs.schema import PlotCfg
from rearrange.errors import UserError


def make_run(folder, steps=(0, 50, 100), returns=(0.0, 5.0, 10.0), success=None, **summary):
    folder.mkdir(parents=True)
    lines = [
        {"step": s, "time_s": s / 10, "episode/return": r, "episode/success": success}
        for s, r in zip(steps, returns, strict=True)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if summary:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def settings(tmp_path, *folders, **others):
    return PlotCfg(runs=[str(f) for f in folders], output=str(tmp_path / "a" / "p.png"), **others)


def test_picture_of_one_run_and_of_several_is_written(tmp_path, capsys):
    one = make_run(tmp_path / "one", success=0.5, env="CartPole-v1", mode="ver")
    two = make_run(tmp_path / "two", success=0.7, env="CartPole-v1", mode="nover")
    short = [make_run(tmp_path / f"short{i}", [9], [i], env="e") for i in range(2)]
    for folders, x in (((one,), "step"), ((one, two), "time"), (short, "step")):
        assert run(settings(tmp_path, *folders, x=x, smooth=2)) == 0
        picture = tmp_path / "a" / "p.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert str(picture) in capsys.readouterr().out


def test_curves_are_means_over_the_runs_of_a_group(tmp_path):
    runs = [
        make_run(tmp_path / "a", returns=(0.0, 0.0, 0.0), env="e", mode="ver"),
        make_run(tmp_path / "b", returns=(2.0, 2.0, 2.0), env="e", mode="ver"),
        make_run(tmp_path / "d", returns=(4.0, 4.0, 4.0), env="e", mode="ver"),
        make_run(tmp_path / "c", returns=(9.0, 9.0, 9.0), env="e", mode="async"),
    ]
    figure = draw([read_run(folder) for folder in runs], ["episode/return"], "step", 1)
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"e, ver (3 runs)", "e, async"}
    assert np.unique(lines["e, ver (3 runs)"].get_ydata()) == [2.0]
    assert np.unique(lines["e, async"].get_ydata()) == [9.0]
    (band,) = axes.collections  # one group has several runs
    heights = band.get_paths()[0].vertices[:, 1]
    half = 4.303 * 2.0 / 3**0.5  # Student's t with 2 degrees of freedom; the runs' s is 2
    assert heights.min() == pytest.approx(2.0 - half) and heights.max() == pytest.approx(2.0 + half)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "e, async",
        "e, ver (3 runs)",
    ]


def test_mean_is_drawn_where_more_than_half_of_the_runs_are():
    steps = np.array([0.0, 100.0])
    curves = [
        (steps, np.array([0.0, 10.0])),
        (0.8 * steps, np.array([2.0, 2.0])),
        (0.5 * steps, np.array([7.0, 7.0])),
    ]
    places, mean, low, high = mean_curve(curves)
    assert places[0] == 0.0 and 79.0 < places[-1] <= 80.0
    for x, y, bottom, top in zip(places, mean, low, high, strict=True):
        values = [x / 10, 2.0, 7.0] if x <= 50.0 else [x / 10, 2.0]
        assert y == pytest.approx(np.mean(values))
        half = 4.303 * np.std(values, ddof=1) / 3**0.5 if len(values) == 3 else np.nan
        assert bottom == pytest.approx(y - half, nan_ok=True)
        assert top == pytest.approx(y + half, nan_ok=True)


def test_smoothing_is_the_mean_of_the_last_values():
    values = np.array([4.0, 2.0, 6.0, 1.0, 3.0])
    for width in (1, 2, 3, 5, 6, 50):
        expected = [values[max(0, i + 1 - width) : i + 1].mean() for i in range(5)]
        assert running_mean(values, width).tolist() == pytest.approx(expected)
    once = np.array([1.0, 1e20, 1.0, 1.0, 1.0])
    assert running_mean(once, 2)[3:].tolist() == [1.0, 1.0]  # it does not stay for good


@pytest.mark.parametrize(
    ("config", "summary", "label"),
    [
        (
            "env: E-v0\nmode: batched\nsapg: {num_blocks: 4}\n",
            None,
            "E-v0, batched, SAPG with 4 blocks",
        ),
        ("env: e\ntrainer: {mode: nover}\npolicy: {preset: small}", None, "e, nover, small"),
        ("env: e\nmode: nover", {"env": "E", "mode": "ver"}, "E, ver"),
        ("skill: pick", None, "pick"),
        ("seed: 3", None, "folder"),
        (None, None, "folder"),
    ],
)
def test_label_says_environment_mode_and_policy(tmp_path, config, summary, label):
    folder = make_run(tmp_path / "folder", **(summary or {}))
    if config:
        (folder / "config.yaml").write_text(config)
    assert read_run(folder).label == label


def test_metric_without_a_value_gets_no_panel(tmp_path, capsys):
    folder = make_run(tmp_path / "run", success=None)
    assert run(settings(tmp_path, folder)) == 0
    assert "no panel for episode/success" in capsys.readouterr().out
    with pytest.raises(UserError, match="no values to plot"):
        run(settings(tmp_path, folder, metrics=["episode/success"]))


def test_run_that_is_still_writing_is_drawn(tmp_path):
    folder = make_run(tmp_path / "run")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 150, "time_')
    assert [line["step"] for line in read_run(folder).lines] == [0, 50, 100]


def test_what_cannot_be_drawn_is_one_line(tmp_path):
    good = make_run(tmp_path / "good")
    (tmp_path / "bare").mkdir()
    empty, damaged, no_settings, no_yaml = (
        make_run(tmp_path / name) for name in ("empty", "damaged", "no_settings", "no_yaml")
    )
    (empty / "metrics.jsonl").write_text("")
    (damaged / "metrics.jsonl").write_text('{"step": 1}\n')
    (no_settings / "summary.json").write_text("[")
    (no_yaml / "config.yaml").write_text("a: [\nb: }\n")
    for folder, message in (
        (tmp_path / "missing", "there is no folder "),
        (tmp_path / "bare", "there is no .*metrics.jsonl"),
        (empty, "has no updates yet"),
        (damaged, "is damaged in line 1"),
        (no_settings, "summary.json is damaged"),
        (no_yaml, "config.yaml is damaged"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            run(settings(tmp_path, good, folder))
        assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    with pytest.raises(UserError, match="did you mean 'episode/return'"):
        run(settings(tmp_path, good, metrics=["episode/retrun"]))
    with pytest.raises(UserError, match="output must end in"):
        run(PlotCfg(runs=[str(good)], output=str(tmp_path / "p.gif")))
    with pytest.raises(UserError, match="as a folder: it is a file"):
        run(PlotCfg(runs=[str(good)], output=str(good / "metrics.jsonl" / "p.png")))


def test_stages_of_one_skill_are_no_seeds_of_each_other(tmp_path):
    """Seeds 0 and 1 of a way make one curve; a second run of seed 0 is something else."""
    same = {"env": "e", "mode": "ver"}
    first = make_run(tmp_path / "first", **same, seed=0)
    others = (
        make_run(tmp_path / "second", **same, seed=1),
        make_run(tmp_path / "on", **same, seed=0),
    )
    taught = make_run(tmp_path / "taught", **same, seed=0)
    (taught / "config.yaml").write_text("method: imitation\n")
    labels = [run.label for run in told_apart([read_run(first), read_run(others[0])])]
    assert labels == 2 * ["e, ver"]
    runs = told_apart([read_run(folder) for folder in (first, *others, taught)])
    assert [run.label for run in runs] == [
        "e, ver, first", "e, ver, second", "e, ver, on", "e, imitation",
    ]  # fmt: skip


def configured(folder, seed, **values):
    """A run of two updates with these settings in its config.yaml."""
    make_run(folder, (0, 9), (1.0, 2.0), env="e", mode="ver", seed=seed)
    known = {"seed": seed, "run_dir": str(folder), "env": "e", "mode": "ver", **values}
    (folder / "config.yaml").write_text(json.dumps(known))  # JSON is YAML
    return folder


def test_seeds_of_runs_that_differ_in_a_setting_make_a_curve_each(tmp_path):
    """As far as all runs know the setting, and it is part of the experiment."""
    runs = [
        configured(tmp_path / f"{mode}{seed}", seed, start_mode=mode, ppo={"clip_coef": 0.2},
                   num_threads=seed + 1, **({"new": seed} if mode == "off" else {}))
        for mode in ("off", "clock") for seed in (0, 1)
    ]  # fmt: skip
    labels = [run.label for run in told_apart([read_run(folder) for folder in runs])]
    assert labels == 2 * ["e, ver, start_mode=off"] + 2 * ["e, ver, start_mode=clock"]
    runs += [configured(tmp_path / "steep", 0, start_mode="off", ppo={"clip_coef": 0.3})]
    labels = [run.label for run in told_apart([read_run(folder) for folder in runs[-3:]])]
    assert labels == [
        "e, ver, start_mode=clock, ppo.clip_coef=0.2",
        "e, ver, start_mode=clock, ppo.clip_coef=0.2",
        "e, ver, start_mode=off, ppo.clip_coef=0.3",
    ]
    many = [
        configured(tmp_path / f"many{i}", i, **{f"setting{j}": i + j for j in range(5)})
        for i in range(2)
    ]
    labels = [run.label for run in told_apart([read_run(folder) for folder in many])]
    assert labels == ["e, ver, many0", "e, ver, many1"]


def test_options_that_only_some_runs_were_given_tell_them_apart(tmp_path):
    """Of what a file does not name the environment takes the default."""
    plain = [configured(tmp_path / f"plain_{seed}", seed, env_kwargs={}) for seed in (0, 1)]
    long = [
        configured(tmp_path / f"long_{seed}", seed, env_kwargs={"horizon": 400}) for seed in (2, 3)
    ]
    labels = [run.label for run in told_apart([read_run(folder) for folder in plain + long])]
    assert labels[0] == labels[1] and labels[2] == labels[3]
    assert labels[0].endswith("env_kwargs.horizon=default")
    assert labels[2].endswith("env_kwargs.horizon=400")


def test_a_folder_given_twice_is_one_run(tmp_path):
    run = configured(tmp_path / "run", 0)
    assert len(told_apart([read_run(run), read_run(run.parent / "." / run.name)])) == 1


def test_runs_of_one_name_in_several_folders_are_told_apart(tmp_path):
    """Each is found by the end of its path; before a run's end only YAML says its seed."""
    folders = [configured(tmp_path / parent / "pick/ver", 0) for parent in ("l", "p")]
    folders.append(configured(tmp_path / "r/ver", 0))
    labels = [run.label for run in told_apart([read_run(folder) for folder in folders])]
    assert labels == ["e, ver, l/pick/ver", "e, ver, p/pick/ver", "e, ver, r/ver"]
    for folder in folders:
        (folder / "summary.json").unlink()
    assert [read_run(folder).seed for folder in folders] == [0, 0, 0]
    unfinished = [run.label for run in told_apart([read_run(folder) for folder in folders])]
    assert len(set(unfinished)) == 3
    many = [
        configured(tmp_path / f"{parent}/same", i, **{f"setting{j}": i + j for j in range(5)})
        for i, parent in enumerate("xy")
    ]
    labels = [run.label for run in told_apart([read_run(folder) for folder in many])]
    assert labels == ["e, ver, x/same", "e, ver, y/same"]


def test_a_legend_is_within_the_picture(tmp_path):
    runs = [
        configured(tmp_path / f"{mode}-{i}", 0, start_mode=mode, policy=f"{i}" * (40 + 40 * i))
        for i, mode in enumerate(("off", "clock", "advance", "staggered"))
    ]
    told = told_apart([read_run(folder) for folder in runs])
    figure = draw(told, ["episode/return", "episode/success"], "step", 1)
    figure.savefig(io.BytesIO(), dpi="figure")  # which makes the layout
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0.0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0.0
    (upper, lower) = figure.axes
    assert lower.get_window_extent().y0 > box.y1 and upper.get_window_extent().height > 200.0


def test_a_mean_that_ends_before_its_longest_run_says_so(tmp_path, capsys):
    ends = (100, 100, 1490)  # two of three end at 100
    runs = [
        make_run(tmp_path / f"{i}", (0, 50, end), env="e", seed=i) for i, end in enumerate(ends)
    ]
    assert run(settings(tmp_path, *runs, metrics=["episode/return"])) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "cut at" in line]
    assert said == [
        "e, episode/return: cut at 100 steps, where no more than half of the 3 runs go on; "
        "the longest has 1,490 steps"
    ]
    assert run(settings(tmp_path, *runs[:2], metrics=["episode/return"])) == 0
    assert "cut at" not in capsys.readouterr().out
