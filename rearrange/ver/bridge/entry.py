"""The program that another Python runs, by this file's path.

    stdin  <-  {"task": "describe", "try" or "work", "package": folder of ours, "fds": ..., ...}
    fds["result"]  ->  one line of JSON, of the first two tasks

Written for every Python there may be, so that one that is too old can say so; whatever needs numpy
comes after numpy was found. The package's own `__init__` wants MuJoCo: a bare one takes its place.
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


def _done(settings):
    """Does the task; what there is to tell of it."""
    for fd in settings["fds"].values():
        os.set_inheritable(fd, False)  # what a simulator starts has no use for them
    package = types.ModuleType("rearrange")
    package.__path__ = [settings["package"]]
    sys.modules["rearrange"] = package
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    sys.path.append(os.getcwd())
    from rearrange.ver.bridge import serving

    return serving.serve(settings)


def _problem(settings):
    """What keeps this Python from working for us; empty if nothing does."""
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
