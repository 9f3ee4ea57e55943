"""The bench of the trainer's modes: its arithmetic, its bars, its peers, and one short real run."""

import json
import subprocess
import sys

import pytest

from rearrange.configs.benches import BenchTrainersCfg
from rearrange.errors import UserError
from rearrange.eval.benchmarks.peers import peers
from rearrange.eval.benchmarks.trainers import bench_trainers, collection
from rearrange.eval.benchmarks.trainers.collection import COLLECTION, HOMES

HANGING = "import time\nprint('ValueError: numpy is too new', flush=True)\ntime.sleep(60)"


def line(time_s, env, learn):
    phases = {"env": env, "infer": 0.0, "learn": learn, "wait": 1.0 - env - learn}
    speed = {"batch_size": 2.0, "collect_s": 1.0, "learn_s": 0.5}
    return (
        {"time_s": time_s}
        | {f"phase/{name}": share for name, share in phases.items()}
        | {f"speed/{name}": value for name, value in speed.items()}
    )


def rates(ver=470.0, ddppo=145.0, nover=350.0, ideal=480.0, batched=145.0):
    means = {"ver": ver, "ddppo": ddppo, "nover": nover, "ideal": ideal, "batched": batched}
    return {name: {"mean": mean} for name, mean in means.items()}


def test_rates_leave_out_the_warm_up_and_shares_are_weighted_by_time():
    # after the warm-up, which ended at 10 s: 100 steps in 1 s, then 100 in 3 s
    rates = bench_trainers.measured_rates(
        [line(10, 0, 0), line(11, 0.8, 0), line(14, 0.4, 0.4)], 100
    )
    assert rates["mean"] == 50.0 and rates["max"] == 100.0
    assert rates["windows_s"] == [1, 3]
    assert rates["phases"]["env"] == pytest.approx(0.5)  # (0.8 x 1 + 0.4 x 3) / 4
    assert rates["phases"]["learn"] == pytest.approx(0.3)
    assert sum(rates["phases"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "worse, missed",
    [
        ({}, []),
        ({"ddppo": 160.0}, ["straggler: ver / ddppo"]),
        ({"nover": 380.0}, ["straggler: ver / nover"]),
        ({"ideal": 500.0}, ["straggler: ver / ideal"]),
        ({"batched": 480.0}, ["straggler: ver / batched"]),
    ],
)
def test_each_bar_is_missed_for_its_own_reason(worse, missed, monkeypatch, tmp_path, capsys):
    results = {
        "workloads": {
            "straggler": rates(**worse),
            "pick": {
                "ver": {"mean": 100.0},
                "async": {"mean": 99.0},
                "sb3": {"error": "it died"},
                "batched": {"mean": 116.0},
                "free policy": {"mean": 91.0},
                "homes alone": {"mean": 100.0},
            },
        }
    }
    monkeypatch.setattr(bench_trainers, "measure", lambda *arguments: results)
    output = tmp_path / "bench.json"
    code = bench_trainers.run(BenchTrainersCfg(output=str(output), peers="none"))
    assert code == bool(missed)
    bars = json.loads(output.read_text())["bars"]
    assert [name for name, bar in bars.items() if not bar["is_met"]] == missed
    assert bars["pick: ver / async"]["is_met"] and len(bars) == 7
    assert {"pick: batched / ver", "pick: free policy / homes alone"} <= bars.keys()
    printed = capsys.readouterr().out
    assert printed.count("MISSED") == len(missed) and printed.count("failed") == 1


@pytest.mark.parametrize(
    "setting, message",
    [
        ({"workloads": "straggler,flying"}, "workloads"),
        ({"modes": "ver,impala"}, "modes"),
        ({"modes": " , "}, "modes"),
        ({"peers": "rllib"}, "peers"),
        ({"peers_python": "/no/such/python"}, "peers_python"),
        ({"peers": "sample_factory", "peers_python": sys.executable}, "peers_python"),
    ],
)
def test_a_wrong_name_is_one_clear_line_before_anything_runs(setting, message, monkeypatch):
    monkeypatch.setattr(bench_trainers, "measure", None)
    monkeypatch.setitem(peers.PEERS, "sample_factory", ("no.module", "no_such_package"))
    with pytest.raises(UserError, match=message):
        bench_trainers.run(BenchTrainersCfg(**setting))


def script(monkeypatch, tmp_path, text):
    """A peer of our own, found in the folder where PYTHONPATH points."""
    (tmp_path / "own_peer.py").write_text(text)
    monkeypatch.setitem(peers.PEERS, "own", ("own_peer", "json"))
    monkeypatch.setattr(peers, "_environment", lambda: {"PYTHONPATH": str(tmp_path)})


def test_a_peer_gets_the_settings_and_its_answer_comes_back(monkeypatch, tmp_path):
    script(
        monkeypatch,
        tmp_path,
        "import json, sys\n"
        "cfg = json.load(open(sys.argv[1]))\n"
        "json.dump({'update_ends_s': [0.0, cfg['num_envs']]}, open(sys.argv[2], 'w'))\n",
    )
    answer = peers.run_peer("own", sys.executable, peers.PeerCfg(num_envs=5), 30.0)
    assert answer == {"update_ends_s": [0.0, 5]}


@pytest.mark.parametrize(
    "text, how, timeout_s",
    [("raise ValueError('numpy is too new')", "ended with 1", 30.0), (HANGING, "longer", 3.0)],
)
def test_a_peer_that_fails_or_hangs_says_why(monkeypatch, tmp_path, text, how, timeout_s):
    script(monkeypatch, tmp_path, text)
    with pytest.raises(RuntimeError, match=f"(?s){how}.*numpy is too new"):
        peers.run_peer("own", sys.executable, peers.PeerCfg(), timeout_s)


def test_the_modules_that_a_peer_s_worker_imports_load_no_torch():
    code = "import sys, rearrange.eval.benchmarks.peers.peers, rearrange.tasks.gym_factory; "
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "torch" not in done.stdout.split()


@pytest.mark.slow
def test_the_bench_runs_on_sleeping_and_on_real_environments(tmp_path, monkeypatch):
    cfg = BenchTrainersCfg(
        workloads="straggler,pick", num_envs=2, num_steps=8, num_rollouts=2, home_rollouts=1,
        camera_size=16, policy="mlp_lstm", peers="none", keep_dir=str(tmp_path / "runs"),
    )  # fmt: skip
    monkeypatch.setattr(collection, "TURNS", 1)
    modes_asked = ["ver", "batched", "ddppo", "async"]
    results = bench_trainers.measure(cfg, ["straggler", "pick"], modes_asked, [])
    json.dumps(results, allow_nan=False)
    assert min(results["workloads"]["pick"][who]["mean"] for who in (COLLECTION, HOMES)) > 0
    for name, modes in results["workloads"].items():
        for mode in modes_asked:
            assert modes[mode]["mean"] > 0 and sum(modes[mode]["phases"].values()) <= 1.01, name
    with pytest.raises(UserError, match="keep_dir"):
        bench_trainers.measure(cfg, ["pick"], ["ver"], [])
