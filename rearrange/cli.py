"""The command `rearrange VERB [key=value ...]`.

A verb's settings are a dataclass in `configs/schema.py` or `training.py`, its work a function
`run(settings)` in a module which is imported only when the verb is used, so that help comes at
once.

Exit codes: 0 done; 1 done, and the answer is no (a doctor's finding, a missed bar, a bad episode);
2 the caller's mistake, with one line `error: ...`; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP (a closed
terminal) and 75 SIGUSR1 (start me again), all of them after saving. What nobody expected is 1, with
a traceback. A reader of stdout that leaves ends a command quietly, with 0.
"""

import difflib
import importlib
import signal
import sys
from typing import Any

from rearrange import __version__
from rearrange.commands.help import verb_help
from rearrange.configs.verbs import TRAINING_VERBS
from rearrange.errors import MACHINE_ERRORS, UserError
from rearrange.system import console
from rearrange.system.open_files import advice
from rearrange.system.stop_signals import EXIT_CODES, TO_ALL, is_shielded
from rearrange.verbs import VERBS

HELP = ("-h", "--help", "help")
_arrived: list[int] = []  # signals whose exceptions were raised


class Terminated(BaseException):
    """SIGTERM, SIGHUP or SIGUSR1 arrived; its number is the argument."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    console.open_missing()
    _arrived.clear()
    try:
        for signum in TO_ALL:
            if not is_shielded(signum):
                signal.signal(signum, _raise_terminated)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except UserError as error:
        return _stopped() or _fail(str(error), 2)
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_CODES[signal.SIGINT])
    except Terminated as stop:
        return _fail("terminated", EXIT_CODES[stop.args[0]])
    except SystemExit as stop:  # our own code returns; so an environment or a library did it
        return _fail(f"something called sys.exit({stop.code!r}) in the middle of the work", 1)
    except OSError as error:
        if error.errno in console.NOBODY and console.is_gone(sys.stdout):
            return 0  # `rearrange list | head -1`
        if error.errno not in MACHINE_ERRORS:
            raise  # not the machine's state but a defect of ours: show where
        place = f" ({error.filename})" if error.filename else ""
        return _fail(f"{error.strerror}{place}{advice(error)}", 2)
    except Exception:
        if (code := _stopped()) is not None:
            return code
        raise
    finally:
        console.detach_streams()


def train_skill() -> int:
    """The command `train-skill NAME ...`, which is `rearrange train-skill NAME ...`."""
    return main(["train-skill", *sys.argv[1:]])


def _raise_terminated(signum: int, frame: object) -> None:
    _arrived.append(signum)
    raise Terminated(signum)


def _interrupt(signum: int, frame: object) -> None:
    _arrived.append(signum)
    raise KeyboardInterrupt


def _stopped() -> int | None:
    """Exit code after a signal whose exception has become another one; None: there was none.

    One that is raised within a compiled kernel or an import comes out as a SystemError or
    ImportError.
    """
    if not _arrived:
        return None
    is_interrupt = _arrived[-1] == signal.SIGINT
    return _fail("interrupted" if is_interrupt else "terminated", EXIT_CODES[_arrived[-1]])


def _fail(message: str, code: int) -> int:
    console.print_error(message)
    return code


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"rearrange {__version__}")
        return 0
    if arguments[0] == "help":
        if len(arguments) == 1:
            print(overview())
        else:
            print(_help(*split_verb(arguments[1:])))
        return 0
    verb, rest = split_verb(arguments)
    if any(text in HELP for text in rest):
        print(_help(verb, [text for text in rest if text not in HELP]))
        return 0
    if not rest and (below := _verbs_below(verb)):
        print("\n".join(["one of:", *below]))
        return 0
    settings = load_settings(verb, rest)
    return importlib.import_module(VERBS[verb].module).run(settings)


def _verbs_below(verb: str) -> list[str]:
    """Lines on what a verb that has others below it can be told to do: `bench sim`."""
    others = [name for name in VERBS if name.startswith(f"{verb} ")]
    first = VERBS[verb].examples[0]
    lines = {first: VERBS[verb].summary} | {name: VERBS[name].summary for name in others}
    width = max(map(len, lines))
    return [f"  {name:<{width}}  {text}" for name, text in lines.items()] if others else []


def load_settings(verb: str, overrides: list[str]) -> Any:
    """The settings that a verb runs with. Raises UserError for a mistake in the overrides."""
    if verb in TRAINING_VERBS:
        from rearrange.commands.training.resolve import load_training

        return load_training(verb, overrides)
    from rearrange.commands.settings import load

    return load(verb, overrides)


def _help(verb: str, overrides: list[str]) -> str:
    """What a verb's help prints; with overrides the values that they lead to."""
    settings = load_settings(verb, overrides) if overrides else None
    return verb_help(verb, VERBS[verb], settings)


def split_verb(arguments: list[str]) -> tuple[str, list[str]]:
    """The verb, of one word or two, and its arguments. Raises UserError for an unknown one."""
    two, word = " ".join(arguments[:2]), arguments[0]
    if two in VERBS:
        return two, arguments[2:]
    if word in VERBS:
        return word, arguments[1:]
    close = difflib.get_close_matches(word, VERBS, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(VERBS)}"
    raise UserError(f"unknown verb '{word}': {hint}")


def overview() -> str:
    """What `rearrange --help` prints."""
    width = max(map(len, VERBS))
    lines = [
        "rearrange: a home robot on the Home Assistant Benchmark, simulated with MuJoCo",
        "",
        "usage: rearrange VERB [key=value ...]",
        "       rearrange VERB --help       the verb's settings with defaults and meanings",
        "",
        "verbs:",
        *(f"  {name:<{width}} {verb.summary}" for name, verb in VERBS.items()),
        "",
        "examples:",
        *(f"  rearrange {verb.examples[0]}" for verb in VERBS.values()),
        "",
        "New here: `rearrange doctor` looks at this machine, `rearrange list` shows what there is,",
        "and the first example lets the robot tidy two houses on video.",
    ]
    return "\n".join(lines)
