"""A page of `rearrange view` in a real browser without a screen.

The browser is the program that REARRANGE_CHROMIUM names, or the first of `NAMES` on the PATH.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
WORK_S = 300.0  # of CPU: kernels may have to be compiled
LIMIT_S = 1800.0  # so long a machine may take for that, at most


def find_browser():
    """Path of the browser; skips the test where there is none."""
    pytest.importorskip("playwright.sync_api", reason="pip install playwright (the extra `dev`)")
    named = os.environ.get("REARRANGE_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: put {', '.join(NAMES)} on the PATH or set REARRANGE_CHROMIUM")
    return found


@contextmanager
def program(*overrides):
    """`rearrange view` in a process of its own: (process, port)."""
    command = [sys.executable, "-m", "rearrange", "view", "port=0", *overrides]
    root = str(Path(__file__).parents[3])
    env = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        line = process.stdout.readline()
        port = re.search(r"localhost:(\d+)/", line)
        assert port is not None, f"no address in {line!r}"
        yield process, int(port[1])
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        process.kill()


def busy_seconds(process):
    """CPU time that a process has had, s."""
    with suppress(OSError):
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0  # no Linux: only the clock counts


def wait_for_page(page, process, condition):
    """Until the page's `condition` holds.

    Fails at once if the program ends or the page shows a message, which says why something cannot
    be. The limit counts what the program computes: on a busy machine that takes long.
    """
    begun, worked = time.monotonic(), busy_seconds(process)
    while True:
        is_so, message = page.evaluate(f"() => [Boolean({condition}), state.message || '']")
        if is_so:
            return
        assert process.poll() is None, f"the program ended, exit code {process.returncode}"
        assert not message, f"{message}; waiting for {condition}"
        is_late = busy_seconds(process) > worked + WORK_S or time.monotonic() > begun + LIMIT_S
        if is_late:
            state = page.evaluate("Object.fromEntries(Object.entries(state).slice(0, 24))")
            pytest.fail(f"waited for {condition}, shown is {state}")
        page.wait_for_timeout(50)


@contextmanager
def browser_page(process, port):
    """The page, open and with a first picture; errors of its script fail the test."""
    from playwright.sync_api import sync_playwright

    errors = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=ARGUMENTS)
        try:
            page = browser.new_page(viewport={"width": 1300, "height": 950})
            page.set_default_timeout(1000 * LIMIT_S)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"http://127.0.0.1:{port}/")
            wait_for_page(page, process, "state.home !== undefined")
            yield page
        finally:
            browser.close()
    assert errors == []
