"""Commands of tests: what they print, and settings that make a training small."""

from rearrange import cli
from rearrange.commands.overrides import last_override_per_key

TINY = ["env_kwargs.depth=false", "num_envs=2", "num_steps=32", "serial=true", "num_threads=1"]
SLIGHT = ["policy.hidden_sizes=16", "policy.vector_size=8", "policy.lstm_hidden=16"]


def works(capsys, *arguments):
    """What a command that must end well prints."""
    code = cli.main(last_override_per_key(arguments))  # the last of a key
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def fails(capsys, *arguments):
    """The one line of a command that must fail."""
    assert cli.main(last_override_per_key(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert captured.out == ""
    return captured.err
