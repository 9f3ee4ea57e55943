"""The life of a group of ranks, with a Ray that answers at once."""

import signal
from types import SimpleNamespace

import pytest

pytest.importorskip("ray", reason="Ray is not installed: the extra `cluster` brings it")

from rearrange.cluster import rank_group  # noqa: E402
from rearrange.cluster.rank_group import RankGroup  # noqa: E402
from rearrange.cluster.rank_host import Report, Spot  # noqa: E402
from rearrange.cluster.scheme import SchemeCfg  # noqa: E402

RUNS, LOST = Report(None, "", ""), rank_group.RayError("the machine is gone\nand more")


class FakeHost:
    """Says what its script has for it, look by look."""

    def __init__(self, rank, script, log):
        self.rank, self.log, self.script = rank, log, list(script)
        for name in ("find_spot", "start", "look", "send"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    def _find_spot(self):
        return Spot("node", "10.0.0.1", 1000 + self.rank, ())

    def _start(self, arguments, variables, folder):
        self.log.append(("start", variables["RANK"], arguments))

    def _look(self):
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def _send(self, signum):
        self.log.append(("send", self.rank, signum))


@pytest.fixture
def group(monkeypatch):
    """group(script of attempt 0, script of attempt 1, ...): what each rank says at each look."""

    def make(*attempts, max_restarts=3):
        log, hosts = [], []

        def remote():
            attempt, rank = divmod(len(hosts), 2)
            hosts.append(FakeHost(rank, attempts[attempt][rank], log))
            return hosts[-1]

        def get(answers):
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return answers

        fake = SimpleNamespace(
            wait=lambda answers, **_: (answers, []), get=get,
            kill=lambda host: log.append(("kill", host.rank)),
            remote=lambda cls: SimpleNamespace(options=lambda **_: SimpleNamespace(remote=remote)),
        )  # fmt: skip
        monkeypatch.setattr(rank_group, "ray", fake)
        monkeypatch.setattr(rank_group, "placement_group", lambda *_, **__: object())
        monkeypatch.setattr(rank_group, "remove_placement_group", lambda _: None)
        monkeypatch.setattr(
            rank_group, "PlacementGroupSchedulingStrategy", lambda *_: "a place for it"
        )
        scheme = SchemeCfg(name="ray", world_size=2, max_restarts=max_restarts)
        made = RankGroup("it", ["train"], scheme, "/")
        made.log = log
        return made

    return make


def look(group, times=20):
    for _ in range(times):
        group.look()
    return group


def ended(code, err=""):
    return Report(code, "", err)


def starts(group):
    return [entry[1] for entry in group.log if entry[0] == "start"]


def test_it_is_over_when_all_ranks_are(group):
    made = group([[RUNS, ended(0)], [RUNS, RUNS, RUNS, ended(0)]])
    assert look(made, 4).state == "running" and made.nodes == ["10.0.0.1"]
    assert look(made).exit_code == 0 and starts(made) == ["0", "1"]


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (LOST, "a rank's host was lost (RayError: the machine is gone)"),
        (ended(-9), "rank 1 ended with exit code -9 ()"),
        (ended(1, "a\nerror: no more memory\n"), "rank 1 ended with exit code 1 (no more memory)"),
    ],
    ids=["machine", "killed", "failed"],
)
def test_a_loss_starts_all_ranks_again(group, loss, reason):
    made = group([[RUNS], [RUNS, loss]], [[RUNS, ended(0)], [RUNS, ended(0)]])
    look(made)
    assert (made.exit_code, made.restarts, made.reason) == (0, 1, reason)
    assert starts(made) == ["0", "1", "0", "1"]


def test_the_budget_of_restarts_ends_it(group):
    attempt = [[RUNS], [LOST]]
    made = look(group(*[attempt] * 3, max_restarts=2))
    assert made.exit_code == 1 and made.restarts == 2
    assert made.reason.endswith("the budget of 2 restarts is spent")


def test_a_mistake_is_not_tried_again(group):
    mistake = ended(2, "error: seed must not be negative\n")
    made = look(group([[mistake], [mistake]]))
    assert (made.exit_code, made.restarts) == (2, 0)
    assert made.reason == "seed must not be negative"


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 75)])
def test_a_signal_is_handed_on_and_waited_for(group, signum, code):
    made = group([[RUNS, RUNS, RUNS, ended(code)], [RUNS, RUNS, RUNS, RUNS, ended(code)]])
    look(made, 3)
    made.stop(signum)
    made.stop(signal.SIGINT)  # the first one counts
    assert look(made, 1).state == "running"
    assert look(made).exit_code == code
    assert [entry for entry in made.log if entry[0] == "send"] == [
        ("send", 0, signum), ("send", 1, signum),
    ]  # fmt: skip


def test_a_signal_ends_what_has_not_begun_or_does_not_end(group, monkeypatch):
    made = group([[RUNS], [RUNS]])
    made.stop(signal.SIGINT)
    assert made.exit_code == 130 and starts(made) == []

    monkeypatch.setattr(rank_group, "STOP_S", 0.0)
    made = group([[RUNS], [RUNS]])
    look(made, 3)
    made.stop(signal.SIGTERM)
    assert look(made).exit_code == 143 and "was killed" in made.reason


def test_a_signal_to_one_rank_alone_ends_it_too(group):
    made = group([[RUNS, ended(143)], [RUNS, RUNS, RUNS, ended(143)]])
    assert look(made).exit_code == 143 and made.restarts == 0
