"""The one exception a command turns into a line and exit code 2."""


class UserError(ValueError):
    """The caller's mistake. The message is one line: what must hold, what came, what to do."""
