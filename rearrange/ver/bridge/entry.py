"""The program that another Python runs, by this file's path.

    stdin  <-  {"task": "describe", "try", "work" or "call", "package": our folder, "fds": ..., ...}
    fds["result"]  ->  one line of JSON, of the first two tasks

Runs in every Python version, so that one that is too old can say so; modules that need numpy are
imported after it was found. The package's own `__init__` needs MuJoCo: a bare one replaces it.
"""

import json
import os
import sys
import types

OLDEST = (3, 9)


def main():
    """The whole life of the process."""
    with os.fdopen(os.dup(0)) as file:
        settings = json.load(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    problem = _problem(settings)
    content = {"lacks": problem} if problem else _done(settings)
    if "result" in settings["fds"]:
        with os.fdopen(settings["fds"]["result"], "w") as file:
            file.write(json.dumps(content) + "\n")


def _done(settings):  # pyrefly: ignore[implicit-any-parameter]: old Pythons read this
    """Does the task; returns its result."""
    for fd in settings["fds"].values():
        os.set_inheritable(fd, False)  # programs that a simulator starts must not inherit them
    package = types.ModuleType("rearrange")
    package.__path__ = [settings["package"]]
    sys.modules["rearrange"] = package
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    sys.path.append(os.getcwd())
    from rearrange.ver.bridge import serving

    return serving.serve(settings)


def _problem(settings):  # pyrefly: ignore[implicit-any-parameter]: old Pythons read this
    """Why this Python cannot be used; empty if it can."""
    if sys.version_info < OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        return "is Python " + found + ", it takes 3.9 or newer"
    try:
        import numpy  # noqa: F401
    except Exception as error:
        why = " ".join(str(error).split())
        return "lacks numpy: " + settings["python"] + " -m pip install numpy (" + why + ")"
    return ""


if __name__ == "__main__":
    main()
