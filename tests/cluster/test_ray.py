"""A real Ray of our own: evaluations give the local results, ranks run, and nothing stays."""

import json
import os
import socket
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import fake_world
import pytest

from rearrange.cluster import ray_session
from rearrange.cluster.ray_session import connected
from rearrange.cluster.scheme import SchemeCfg
from rearrange.configs.schema import EvaluateCfg, TaskCfg
from rearrange.errors import UserError
from rearrange.eval import evaluate as evaluation
from rearrange.eval import missing_episodes
from rearrange.eval.benchmarks.chaos.run import processes
from rearrange.eval.workers import WorkerError
from rearrange.system.stop_signals import StopSignals
from tests.waits import wait_until

pytest.importorskip("ray", reason="Ray is not installed: the extra `cluster` brings it")

ROOT = Path(__file__).parents[2]
RUN_FACTS = missing_episodes.RUN_FACTS
TASK = TaskCfg(name="fake", title="Fake", stage_skills=[["navigate", "pick"], ["place"]])


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_a_cluster_that_nobody_runs_is_one_line_at_once(prefix, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{prefix}127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        for given in (address, None):
            with (
                pytest.raises(UserError, match=f"cluster at {address}: nobody answers there"),
                connected(given),
            ):
                pass


@pytest.fixture(scope="module")
def session():
    """Ray with two cores; its workers find the fake worlds."""
    before, path = set(processes()), os.environ.get("PYTHONPATH")
    own = [str(ROOT), str(ROOT / "tests/eval")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*own, *filter(None, [path])])
    with connected("local", 2) as ray:
        folder = Path(ray.init(ignore_reinit_error=True).address_info["session_dir"])
        assert folder.exists() and rays_processes(before)
        yield ray
    if path is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = path
    assert not folder.exists()
    wait_until(lambda: not rays_processes(before), explain=lambda: rays_processes(before))


def rays_processes(before):
    """Those of Ray that came since then."""
    return [
        command
        for pid, (_, session, command) in processes().items()
        if pid not in before and session == os.getsid(0) and is_rays(command)
    ]


def is_rays(command):
    """True for what Ray runs itself. The fork server of this very process is not: it is told a
    search path of which Ray's folders are a part, and stays as long as the tests do."""
    paths = [word for word in command.split("\0") if word.startswith("/")]
    return command.startswith("ray::") or any("/site-packages/ray/" in path for path in paths)


@pytest.fixture
def evaluate(session, monkeypatch):
    """evaluate(folder, world, ...), with Ray as it is already connected."""
    monkeypatch.setattr(
        missing_episodes, "connected", lambda address, num_cpus: nullcontext(session)
    )

    def run(folder, world, num_workers=2, **options):
        cfg = EvaluateCfg(
            task=TASK, num_episodes=9, num_workers=num_workers, output_dir=str(folder),
            renderer=str(folder.parent / "mark"), **options,
        )  # fmt: skip
        return evaluation.evaluate(cfg, world)

    return run


def results(folder):
    summary = json.loads((folder / "summary.json").read_text())
    episodes = (folder / "episodes.jsonl").read_bytes()
    return {name: summary[name] for name in summary if name not in RUN_FACTS}, episodes


@pytest.mark.parametrize(
    ("world", "options"),
    [
        (fake_world.make_dying_world, {}),
        (fake_world.make_hanging_world, {"episode_timeout_s": 1.0}),
    ],
    ids=["killed", "silent"],
)
def test_results_are_those_of_the_local_run_though_a_worker_is_lost(
    evaluate, tmp_path, world, options
):
    evaluate(tmp_path / "local", fake_world.make_env_and_agent)
    summary = evaluate(tmp_path / "ray", world, scheme="ray", **options)
    assert summary["workers_lost"] == 1 and summary["num_workers"] == 2
    assert results(tmp_path / "ray") == results(tmp_path / "local")


def test_mistakes_and_defects_in_a_worker_arrive(evaluate, tmp_path):
    with pytest.raises(WorkerError, match="one divided by zero"):
        evaluate(tmp_path / "out", fake_world.make_broken_world, scheme="ray")
    with pytest.raises(UserError, match="^unknown split 'nowhere'$"):
        evaluate(
            tmp_path / "out", fake_world.make_env_and_agent, 1, scheme="ray", split="nowhere"
        )  # fmt: skip
    with pytest.raises(UserError, match="^1 workers were lost in episode 2; out of memory"):
        evaluate(tmp_path / "out", fake_world.make_dying_world, 1, scheme="ray", max_restarts=0)


def test_a_group_runs_the_words_as_each_rank_and_tells_what_rank_0_says(session, tmp_path):
    from rearrange.cluster.rank_group import RankGroup, look_until_over

    one, scheme = (SchemeCfg(name="ray", world_size=size, num_cpus=0.25) for size in (1, 2))
    said = []
    group = RankGroup(
        "a", ["list", "tasks"], scheme, str(tmp_path), lambda *both: said.append(both)
    )
    wrong = RankGroup("b", ["list", "nothing"], one, str(tmp_path))
    nowhere = RankGroup("c", ["list"], one, str(tmp_path / "not there"))
    look_until_over([group, wrong, nowhere], StopSignals())
    assert (group.exit_code, group.restarts) == (0, 0)
    assert "tidy_house" in "".join(out for out, _ in said)
    assert wrong.exit_code == 2 and wrong.reason.startswith("unknown 'nothing': choose from all")
    assert nowhere.exit_code == 2 and "not there" in nowhere.reason


def test_a_cluster_of_our_own_has_room_for_shares_of_cores(monkeypatch):
    """Three ranks of 0.9 cores need three: with two the third would wait for ever."""
    asked = {}

    class Ray:
        def init(self, **options):
            asked.update(options)
            return SimpleNamespace(address_info={"session_dir": "/nowhere"})

        def shutdown(self):
            pass

    monkeypatch.setattr(ray_session, "_imported", Ray)
    monkeypatch.setattr(ray_session, "num_cores", lambda: 2)
    with ray_session.connected(None, 2.7):
        assert asked["num_cpus"] == 3
