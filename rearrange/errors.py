"""UserError, which commands print as one line with exit code 2, and its formatting."""

import difflib
import errno
from collections.abc import Sequence

_HEAD, _TAIL = 500, 250  # characters of a long message; its end is often the advice


class UserError(ValueError):
    """The caller's mistake. The message is one line: what must hold, what came, what to do."""


def one_line(message: object) -> str:
    """A message as a terminal may be shown it, whatever input it repeats.

    White space becomes single blanks, control characters (escape codes among them) their escapes,
    and the middle of a long text is left out.
    """
    line = " ".join(str(message).split())
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    if len(line) > _HEAD + _TAIL + 50:
        left_out = len(line) - _HEAD - _TAIL
        line = f"{line[:_HEAD]} ... {left_out} characters ... {line[-_TAIL:]}"
    return line


def described(error: BaseException) -> str:
    """An error of somebody else's code in one line: its type and what it says."""
    return " ".join(f"{type(error).__name__}: {error}".split())


MACHINE_ERRORS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.ENOMEM,
        errno.EFBIG,
        errno.EMFILE,
        errno.ENFILE,  # too few file handles
        errno.EISDIR,
        errno.ENOTDIR,
        errno.EEXIST,
        errno.ENOTEMPTY,  # a folder for a file
        errno.ENAMETOOLONG,
        errno.ELOOP,
        errno.EIO,
        errno.ESTALE,
    }  # fmt: skip
)
"""Numbers of an OSError that tells of the machine's state, for its owner to mend, and of no defect;
a command makes a line and exit code 2 of it."""


def nearest(word: str, known: Sequence[str]) -> str:
    """'did you mean ...?' with the best match, or all that is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(known)}"
