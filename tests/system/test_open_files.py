"""Few open files are told before they run out, and in one line."""

import resource
import subprocess
import sys


def run(code, *limits):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, preexec_fn=limit)


def test_the_limit_is_raised_as_far_as_it_has_to_be():
    code = """
import resource
from rearrange.system.open_files import raise_file_limit
raise_file_limit(200, "two hundred")
files = [open("/dev/null") for _ in range(200)]
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = run(code, 64, 4000)
    assert done.returncode == 0, done.stderr
    soft, hard = map(int, done.stdout.strip("()\n").split(","))
    assert 200 < soft < 300 and hard == 4000


def test_a_limit_that_cannot_be_raised_is_one_line_with_advice():
    code = """
from rearrange.errors import UserError
from rearrange.system.open_files import raise_file_limit
try:
    raise_file_limit(200, "two hundred")
except UserError as error:
    print(error)
"""
    (line,) = run(code, 64, 64).stdout.splitlines()
    assert line.startswith("two hundred need 2") and "may have 64" in line and "ulimit -n" in line


def test_a_command_with_few_open_files_ends_with_one_line(tmp_path):
    arguments = [
        "evaluate",
        "task=pick",
        "num_episodes=2",
        "num_workers=2",
        f"output_dir={tmp_path}",
    ]
    code = f"import sys; from rearrange.cli import main; sys.exit(main({arguments}))"
    done = run(code, 24, 24)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert "ulimit -n" in done.stderr
