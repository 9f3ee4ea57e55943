"""The command `rearrange VERB [key=value ...]`.

A verb's settings are a dataclass in `configs/schema.py`, its work a function `run(settings)` in a
module which is imported only when the verb is used, so that help comes at once.

Exit codes: 0 done; 1 done, and the answer is no (a doctor's finding, a missed bar, a bad episode);
2 the caller's mistake, with one line `error: ...`; 130 Ctrl-C; 143 SIGTERM.
"""

import ast
import difflib
import errno
import importlib
import inspect
import os
import signal
import sys
import textwrap
from dataclasses import MISSING, dataclass, fields

from rearrange import __version__
from rearrange.errors import UserError


@dataclass(frozen=True)
class Verb:
    module: str  # its function run(settings) -> exit code does the work
    summary: str
    examples: tuple[str, ...]  # what to type after `rearrange`
    notes: str = ""


VERBS: dict[str, Verb] = {
    "evaluate": Verb(
        "rearrange.eval.evaluate",
        "run an agent through many episodes: figures, report, videos",
        (
            "evaluate task=tidy_house agent=oracle split=val num_episodes=4 record=2",
            "evaluate task=pick num_episodes=200 num_workers=2 output_dir=outputs/pick",
        ),
        "Writes summary.json, episodes.jsonl (a line an episode), report.html and stages.png into\n"
        "output_dir, and prints a table. Intervals are 95% bootstrap intervals. Ctrl-C keeps the\n"
        "episodes that are finished.",
    ),
    "record": Verb(
        "rearrange.eval.record",
        "make a video of one episode",
        ("record task=set_table index=3 output=outputs/set_table.mp4",),
        "The video shows the robot, its head camera's depth image, a map, and the running plan.",
    ),
    "view": Verb(
        "rearrange.eval.view",
        "watch or drive the robot in a browser",
        ("view task=pick index=0", "view task=tidy_house agent=oracle port=8080"),
        "Serves a page on this machine only. To see it elsewhere: ssh -L 8000:localhost:8000 HOST.",
    ),
    "plan": Verb(
        "rearrange.eval.plan",
        "print the plan for an episode or for PDDL files",
        (
            "plan task=set_table index=3",
            "plan domain=my_domain.pddl problem=my_problem.pddl",
        ),
    ),
    "episodes": Verb(
        "rearrange.eval.episodes",
        "generate or check episode files",
        (
            "episodes generate task=tidy_house split=val num_episodes=100 output=tidy.json.gz",
            "episodes check file=tidy.json.gz",
        ),
    ),
    "bench": Verb(
        "rearrange.eval.bench_sim",
        "measure physics, depth, env.step, reset and memory",
        ("bench sim", "bench sim output=outputs/bench.json num_steps=2000"),
        "Every time stands beside that of one mj_multiRay image of the same scene and run.\n"
        "Exit code 1 if a bar is missed.",
    ),
    "doctor": Verb(
        "rearrange.eval.doctor",
        "say what this machine has, and what to fix",
        ("doctor", "doctor output=outputs/doctor.json"),
        "Exit code 1 if something has to be fixed.",
    ),
    "list": Verb(
        "rearrange.eval.listing",
        "list the tasks, agents, splits and renderers",
        ("list", "list tasks"),
    ),
}


class Terminated(BaseException):
    """SIGTERM arrived."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        signal.signal(signal.SIGTERM, _raise_terminated)
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        return _fail(str(error), 2)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except Terminated:
        return _fail("terminated", 143)
    except BrokenPipeError:  # `rearrange list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOMEM):
            raise  # not the machine's state but a defect of ours: show where
        place = f" ({error.filename})" if error.filename else ""
        return _fail(f"{error.strerror}{place}", 2)


def _raise_terminated(signum: int, frame: object) -> None:
    raise Terminated


def _fail(message: str, code: int) -> int:
    print("error:", " ".join(message.split()), file=sys.stderr, flush=True)
    return code


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"rearrange {__version__}")
        return 0
    if words[0] == "help":
        if len(words) == 1:
            print(overview())
        else:
            print(verb_help(_known_verb(words[1])))
        return 0
    verb = _known_verb(words[0])
    if any(word in ("-h", "--help", "help") for word in words[1:]):
        print(verb_help(verb))
        return 0
    from rearrange.configs.load import load

    settings = load(verb, words[1:])
    return importlib.import_module(VERBS[verb].module).run(settings)


def _known_verb(word: str) -> str:
    if word in VERBS:
        return word
    close = difflib.get_close_matches(word, VERBS, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(VERBS)}"
    raise UserError(f"unknown verb '{word}': {hint}")


def overview() -> str:
    """What `rearrange --help` prints."""
    lines = [
        "rearrange: a home robot on the Home Assistant Benchmark, simulated with MuJoCo",
        "",
        "usage: rearrange VERB [key=value ...]",
        "       rearrange VERB --help       the verb's settings with defaults and meanings",
        "",
        "verbs:",
        *(f"  {name:<9} {verb.summary}" for name, verb in VERBS.items()),
        "",
        "examples:",
        *(f"  rearrange {verb.examples[0]}" for verb in VERBS.values()),
        "",
        "New here: `rearrange doctor` looks at this machine, `rearrange list` shows what there is,",
        "and the first example lets the robot tidy two houses on video.",
    ]
    return "\n".join(lines)


def verb_help(name: str) -> str:
    """What `rearrange VERB --help` prints: settings, types, defaults and meanings."""
    from rearrange.configs.schema import VERB_CONFIGS

    verb, cls = VERBS[name], VERB_CONFIGS[name]
    meanings = field_docs(cls)
    lines = [f"rearrange {name}: {verb.summary}", "", "settings:"]
    for field in fields(cls):
        default = "" if field.default is MISSING else field.default
        shown = {None: "none", "???": "", "": ""}.get(default, str(default))
        if field.name == "task":
            shown = _default_task(name)
        usage = field.name if field.name == "what" else f"{field.name}={shown}"
        meaning = textwrap.wrap(meanings.get(field.name, ""), 68) or [""]
        lines.append(f"  {usage}")
        lines += [f"      {line}" for line in meaning]
    lines += ["", "examples:", *(f"  rearrange {example}" for example in verb.examples)]
    if verb.notes:
        lines += ["", verb.notes]
    return "\n".join(lines)


def field_docs(cls: type) -> dict[str, str]:
    """Field -> the string that stands under it in the class's source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    return {
        field.target.id: " ".join(doc.value.value.split())
        for field, doc in zip(body, body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr)
    }


def _default_task(verb: str) -> str:
    from rearrange.configs.load import CONFIG_DIR

    for line in (CONFIG_DIR / f"{verb}.yaml").read_text().splitlines():
        if "task:" in line:
            return line.split("task:")[1].strip()
    return ""
