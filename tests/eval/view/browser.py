"""A page of `rearrange view` in a real browser without a screen.

The browser is the program that REARRANGE_CHROMIUM names, or the first of `NAMES` on the PATH.
"""

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
START_S = 300.0  # kernels may have to be compiled


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


@contextmanager
def browser_page(port):
    """The page, open and with a first picture; errors of its script fail the test."""
    from playwright.sync_api import sync_playwright

    errors = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=ARGUMENTS)
        try:
            page = browser.new_page(viewport={"width": 1300, "height": 950})
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_function("state.home !== undefined", timeout=1000 * START_S)
            yield page
        finally:
            browser.close()
    assert errors == []
