"""`rearrange launch`: which trainings there are, and the table of them."""

import json
from types import SimpleNamespace

import pytest

from rearrange.commands.settings import load
from rearrange.commands.training.launch import StatusTable, plan
from rearrange.commands.training.training_env import newest_metrics
from rearrange.errors import UserError


def jobs_of(*overrides):
    return plan(load("launch", list(overrides)))


def test_each_skill_is_trained_with_each_seed_in_a_folder_of_its_own(tmp_path):
    jobs = jobs_of(
        "skills=pick,place", "envs=CartPole-v1", "seeds=3,4", f"run_root={tmp_path}",
        "mode=nover", "total_steps=500", "scheme.num_cpus=2",
    )  # fmt: skip
    assert [job.run_dir.name for job in jobs] == [
        "pick-nover-3", "pick-nover-4", "place-nover-3", "place-nover-4",
        "CartPole-v1-nover-3", "CartPole-v1-nover-4",
    ]  # fmt: skip
    assert jobs[3].arguments == [
        "train-skill", "skill=place", "scheme=ray", "mode=nover", "total_steps=500",
        "scheme.num_cpus=2", "resume=auto", "seed=4", f"run_dir={tmp_path / 'place-nover-4'}",
    ]  # fmt: skip
    assert jobs[4].arguments[:2] == ["train", "env=CartPole-v1"]
    assert (jobs[0].total_steps, jobs[0].scheme.num_cpus) == (500, 2.0)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["skills=pik"], "unknown skill 'pik': did you mean 'pick'?"),
        (["envs=CartPol-v1"], "did you mean CartPole-v1"),
        (["skills=pick", "seed=1"], "launch sets seed itself"),
        (["skills=pick", "seds=1"], "train-skill has no setting 'seds': did you mean 'seed'?"),
        (
            ["skills=pick", "scheme=ranks"],
            "launch runs its trainings on Ray, not with scheme=ranks",
        ),
        (["envs=a:CartPole-v1,b:CartPole-v1"], "No module named 'a'"),
    ],
)
def test_mistakes_are_found_before_anything_is_started(overrides, message, tmp_path):
    with pytest.raises(UserError) as caught:
        jobs_of(*overrides, f"run_root={tmp_path}")
    assert message in str(caught.value)


def test_the_table_shows_where_each_training_stands(tmp_path):
    jobs = jobs_of("envs=CartPole-v1", "seeds=0,1", f"run_root={tmp_path}", "total_steps=1000")
    groups = [
        SimpleNamespace(state="running", exit_code=None, restarts=2, nodes=["10.0.0.1"]),
        SimpleNamespace(state="over", exit_code=1, restarts=0, nodes=[]),
    ]
    run_dir = tmp_path / "CartPole-v1-ver-0"
    run_dir.mkdir()
    assert newest_metrics(run_dir) == {}
    line = {"step": 250, "time_s": 1.0, "speed/sps": 10.0, "episode/return": 21.5}
    text = json.dumps(line | {"step": 100}) + "\n" + json.dumps(line) + "\n" + '{"step": 3'
    (run_dir / "metrics.jsonl").write_text(text)
    rows = StatusTable(jobs, groups).table().splitlines()
    assert rows[1].split("  ")[0] == "CartPole-v1-ver-0"
    assert rows[1].split()[1:] == ["running", "250", "25%,", "1:15", "left", "10", "21.5"] + [
        "2",
        "10.0.0.1",
    ]
    assert rows[2].split() == ["CartPole-v1-ver-1", "failed", "0"]
