"""Signals as a wish: the first counts, a notice never interrupts, children hear nothing."""

import os
import signal
import subprocess
import sys

import pytest

from rearrange.system import stop_signals
from rearrange.system.stop_signals import EXIT_CODES, StopSignals, signals_blocked


@pytest.mark.parametrize("signum", EXIT_CODES)
def test_a_signal_asks_and_tells_the_exit_code(signum):
    stop = StopSignals()
    ours = signal.signal(signum, lambda *_: None)  # under nohup SIGHUP would stay ignored
    before = signal.getsignal(signum)
    with stop.listening():
        assert not stop.is_set() and stop.exit_code == 0
        os.kill(os.getpid(), signum)
    assert stop.is_set() and stop.name == signal.Signals(signum).name
    assert stop.exit_code == EXIT_CODES[signum] == {1: 129, 2: 130, 15: 143}.get(signum, 75)
    assert signal.getsignal(signum) == before
    signal.signal(signum, ours)


def test_a_late_second_signal_interrupts_unless_it_is_a_notice(monkeypatch):
    monkeypatch.setattr(stop_signals, "_SAME_SIGNAL_S", -1.0)
    stop = StopSignals()
    with stop.listening():
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)  # the scheduler's, that sees other ranks leave
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert stop.name == "SIGUSR1"
    stop = StopSignals()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_children_started_meanwhile_do_not_hear_them():
    code = "import os; [os.kill(os.getpid(), n) for n in (15, 10, 1)]; print('on')"
    with signals_blocked():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "on\n"
    assert not {signal.SIGTERM, signal.SIGUSR1} & signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_nohup_is_heeded():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop = StopSignals()
        with stop.listening():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert not stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)
