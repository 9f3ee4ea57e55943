"""Whatever ends a training, what it has learned is saved first, and nothing hides the cause."""

import errno
import functools

import pytest

from rearrange.errors import UserError
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PRESETS
from rearrange.system.folder_lock import FolderLockLost
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import read_metrics
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.workers.environment_worker import episode_seed
from rearrange.ver.workers.first_step import EnvironmentFailure, try_environment
from rearrange.ver.workers.pool import PoolCfg, TooManyRestarts, WorkerPool
from rearrange.workloads.faulty import FaultyEnv

ROLLOUT = 4 * 16


def trainer(run_dir, fault="none", at_step=60, max_restarts=8, total_steps=10**7, **options):
    names = [name for name in options if hasattr(TrainerCfg, name)]
    cfg = {name: options.pop(name) for name in names}
    cfg |= {"workers": PoolCfg(max_restarts=max_restarts), "total_steps": total_steps}
    return Trainer(
        functools.partial(FaultyEnv, fault=fault, at_step=at_step),
        lambda o, a: build_policy(o, a, PRESETS["mlp"]),
        TrainerCfg(num_envs=4, num_steps=16, device="cpu", **cfg),
        run_dir, is_quiet=True, **options,
    )  # fmt: skip


def saved_step(run_dir):
    """Of the checkpoint, which must be that of the last update."""
    step = load_newest(run_dir / "checkpoints").step
    assert step == read_metrics(run_dir / "metrics.jsonl")[-1]["step"] > 0
    return step


class Breaking(WorkerPool):
    """What the system refuses it does not handle itself."""

    def receive(self, timeout_s):
        if self.slots.episode_number.max() == 4:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        return super().receive(timeout_s)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"fault": "mistake"}, UserError),
        ({"fault": "value_error", "serial": True}, ValueError),
        ({"fault": "sys_exit", "serial": True}, SystemExit),
        ({"pool_factory": Breaking}, BrokenPipeError),
    ],
)
def test_whatever_is_raised_comes_after_saving(tmp_path, options, error):
    with pytest.raises(error):
        trainer(tmp_path, **options).run()
    step = saved_step(tmp_path)
    again = trainer(tmp_path, total_steps=step + ROLLOUT, resume="auto", serial=True)
    assert again.run()["total_steps"] == step + ROLLOUT


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_folder_that_is_gone_is_saved_into_and_one_that_is_anothers_is_not(tmp_path, is_taken):
    def check():
        looks.append(None)
        if len(looks) == 3:
            raise FolderLockLost("it is gone", is_taken)

    looks = []
    with pytest.raises(FolderLockLost):
        trainer(tmp_path, check_folder=check, serial=True).run()
    if is_taken:
        assert load_newest(tmp_path / "checkpoints") is None
        assert not (tmp_path / "summary.json").exists()
    else:
        assert saved_step(tmp_path) == 2 * ROLLOUT


@pytest.mark.parametrize(
    ("fault", "cause"), [("value_error", ValueError), ("sys_exit", SystemExit)]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_environment_that_cannot_take_a_step_is_no_mistake_of_the_callers(fault, cause):
    make_env = functools.partial(FaultyEnv, fault=fault, broken_index=0, at_step=1)
    with pytest.raises(EnvironmentFailure, match=f"first step raised {cause.__name__}") as caught:
        try_environment(make_env, seed=0)
    assert isinstance(caught.value.__cause__, cause) and not isinstance(caught.value, ValueError)
    with pytest.raises(UserError):
        try_environment(functools.partial(make_env, fault="mistake"), seed=0)


def test_a_seed_that_cannot_be_started_is_left_out_also_of_later_processes(tmp_path):
    """Without a restart a training ends at each of two tries, and the third one goes on."""
    bad = episode_seed(1, 1, 2)
    options = {"fault": "bad_seed", "at_step": bad, "max_restarts": 0, "seed": 1, "mode": "nover"}
    options |= {"resume": "auto", "total_steps": 8 * ROLLOUT}
    for _ in range(2):
        with pytest.raises(TooManyRestarts, match="environment 1 ended with exit code 7"):
            trainer(tmp_path, **options).run()
    summary = trainer(tmp_path, **options).run()
    assert summary["total_steps"] == 8 * ROLLOUT and summary["restarts"] == 0
    values = load_newest(tmp_path / "checkpoints").manifest["snapshot"]
    assert values["failed_resets"] == {str(bad): 2} and values["episode_numbers"][1] > 2
