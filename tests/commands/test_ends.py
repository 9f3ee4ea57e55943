"""How a command ends that somebody stops, that nobody reads, or that has a defect."""

import os
import shlex
import signal
import subprocess
import sys

import pytest

from rearrange import cli
from rearrange.errors import UserError
from rearrange.system.stop_signals import TO_ALL


def test_ctrl_c_and_a_closed_pipe_leave_cleanly(capsys, monkeypatch):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_dispatch", interrupt)
    assert cli.main([]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
    shell = f"{shlex.quote(sys.executable)} -m rearrange --help | head -1"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=os.environ)
    assert done.stderr == ""
    shell = f"{shlex.quote(sys.executable)} -m rearrange list splits >&-"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=os.environ)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("becomes", [SystemError, ImportError, UserError])
def test_a_signal_whose_exception_becomes_another_is_one_line(
    capsys, monkeypatch, signum, code, becomes
):
    """Such as within a compiled kernel that gives back several things."""

    def interrupted(arguments):
        try:
            signal.raise_signal(signum)
        except BaseException as error:
            raise becomes("returned a result with an exception set") from error

    handlers = {one: signal.getsignal(one) for one in (*TO_ALL, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(cli, "_dispatch", interrupted)
    try:
        assert cli.main([]) == code
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
    word = "interrupted" if signum == signal.SIGINT else "terminated"
    assert capsys.readouterr().err == f"error: {word}\n"


def test_only_a_closed_stdout_is_a_quiet_end(capsys, monkeypatch):
    def pipe_of_another(arguments):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(cli, "_dispatch", pipe_of_another)
    with pytest.raises(BrokenPipeError):
        cli.main([])
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert cli.main([]) == 0
    monkeypatch.setattr(cli, "_dispatch", lambda arguments: sys.exit(0))
    assert cli.main([]) == 1
    assert capsys.readouterr().err.startswith("error: something called sys.exit(0) in the middle")


def test_defects_of_ours_are_not_hidden(monkeypatch):
    def defect(arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "_dispatch", defect)
    with pytest.raises(ZeroDivisionError):
        cli.main([])
