"""Imports go one way, every file is in the wheel, and nothing is imported by its bare name."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]
MAPPED = {folder: name for name, folder in FOLDERS.items() if name != "rearrange"}

# part -> the parts it may import; a part is the longest name here that starts a module's name
ALLOWED = {
    "rearrange.errors": set(),
    "rearrange.console": {"rearrange.errors"},
    "rearrange.files": {"rearrange.errors"},
    "rearrange.checked_json": {"rearrange.errors"},
    "rearrange.sim": set(),
    "rearrange.tasks": {"rearrange.sim"},
    "rearrange.ver": set(),
    "rearrange.cluster": {
        "rearrange.ver",
        "rearrange.cluster.scheme",
        "rearrange.cluster.rank_host",
    },
    "rearrange.cluster.scheme": set(),
    "rearrange.cluster.launch": {"rearrange"},  # the work of a command
    "rearrange.cluster.rank_host": {"rearrange"},  # runs the command
    "rearrange.skills": {"rearrange.sim", "rearrange.tasks", "rearrange.ver"},
    "rearrange.skills.train": {"rearrange"},  # the work of a command
    "rearrange.skills.recipes": {"rearrange"},  # so are its settings
    "rearrange.skills.export": {"rearrange"},
    "rearrange.planner": {
        "rearrange.sim",
        "rearrange.tasks",
        "rearrange.skills",
    },
    "rearrange.configs": {
        "rearrange.cluster.scheme",
        "rearrange.skills",
        "rearrange.ver",
    },
    "rearrange.eval": {"rearrange"},
    "rearrange.cli": {"rearrange"},
    "rearrange.__main__": {"rearrange"},
    "rearrange": {"rearrange.tasks", "rearrange.skills"},  # what `import rearrange` offers
}
GROUND = {"rearrange.errors", "rearrange.files", "rearrange.checked_json"}  # all others stand on it
# where the processes that step environments and run the oracle begin
WORKER_ROOTS = (
    "rearrange.ver.environment_worker", "rearrange.ver.straggler", "rearrange.classic",
    "rearrange.skills.oracle", "rearrange.sim.", "rearrange.tasks.", "rearrange.planner.",
)  # fmt: skip
PURE_PLANNER = (
    "syntax", "pddl", "grounding", "search", "validate", "heuristics", "encoding",
    "fast", "agenda", "together", "relaxed_plans", "budget",
)  # fmt: skip
HEAVY = {"torch", "matplotlib", "scipy", "imageio", "hydra", "tensorboard", "PIL"}


def modules():
    """(module name, path) of every Python file that is installed."""
    for folder in ["rearrange", *MAPPED]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join([MAPPED.get(parts[0], parts[0]), *parts[1:]])
            yield name.removesuffix(".__init__"), path


def imports(path, at_top_level_only=False):
    """Names that a file imports; those inside functions too unless told otherwise."""
    tree = ast.parse(path.read_text())
    for node in tree.body if at_top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(name):
    fits = [part for part in ALLOWED if name == part or name.startswith(part + ".")]
    return max(fits, key=len) if fits else None


def test_imports_go_one_way():
    wrong = []
    for name, path in modules():
        part = part_of(name)
        allowed = ALLOWED[part]
        if allowed == {"rearrange"}:
            continue
        allowed = allowed if part in GROUND else allowed | GROUND
        for imported in imports(path):
            to = part_of(imported)
            if to is not None and to not in allowed | {part, "rearrange"}:
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_the_planner_proper_knows_no_simulator():
    for name, path in modules():
        if name.startswith("rearrange.planner.") and name.split(".")[-1] in PURE_PLANNER:
            ours = {part_of(imported) for imported in imports(path)} - {None, "rearrange"}
            assert ours <= {"rearrange.planner", "rearrange.errors"}, name


def test_what_a_worker_imports_is_light():
    paths = dict(modules())
    to_see = [name for name in paths if name.startswith(WORKER_ROOTS)]
    seen = set()
    while to_see:
        name = to_see.pop()
        imported = set(imports(paths[name], at_top_level_only=True))
        heavy = {i.split(".")[0] for i in imported} & HEAVY
        assert not heavy, f"{name} imports {heavy} when it is imported"
        seen.add(name)
        to_see += [other for other in imported if other in paths and other not in seen]
    assert {"rearrange.skills.reach", "rearrange.ver.spaces"} <= seen


def test_our_folders_are_never_imported_by_their_bare_names():
    paths = [path for _, path in modules()] + sorted((ROOT / "tests").rglob("*.py"))
    for path in paths:
        for imported in imports(path):
            assert imported.split(".")[0] not in MAPPED, f"{path} imports {imported}"


def test_nothing_is_unpickled_or_evaluated_and_no_yaml_is_trusted():
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "yaml.load", "os.system"), name
        assert not {i for i in imports(path) if i.split(".")[0] in ("pickle", "dill", "marshal")}


def test_checkout_holds_no_path_of_one_machine():
    pattern = re.compile(r"(?<![\w.])/(home|root|work|Users)/[a-z]|file://")
    for path in [p for _, p in modules()] + [
        ROOT / "pyproject.toml",
        ROOT / "run",
        ROOT / ".ci/run",
    ]:
        found = pattern.search(path.read_text())
        assert found is None, f"{path}: {found and found.group()}"


def test_ci_runs_the_test_command_of_the_readme():
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    run, test = blocks[0].splitlines()
    assert run.startswith("./run evaluate task=tidy_house agent=tp_srl split=val ")
    assert (ROOT / ".ci/run").read_text().splitlines()[-1].endswith(f"exec {test}")
    for name in ("run", ".ci/run"):
        assert (ROOT / name).stat().st_mode & 0o111, f"{name} must be executable"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy so that the checkout gets no build folder."""
    pytest.importorskip("setuptools")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in ["rearrange", *MAPPED]:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignore)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(target), str(source)], check=True)
    return next(target.glob("*.whl"))


def test_wheel_holds_every_file_of_the_tree(wheel):
    tree = set()
    for folder in ["rearrange", *MAPPED]:
        prefix = MAPPED.get(folder, folder).replace(".", "/")
        for path in (ROOT / folder).rglob("*"):
            inner = path.relative_to(ROOT / folder)
            # Reports of measurements, with their pictures and videos, are for readers of the tree.
            is_left_out = path.suffix == ".md" or {"__pycache__", "results"} & set(inner.parts)
            if path.is_file() and not is_left_out:
                tree.add(f"{prefix}/{inner.as_posix()}")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == tree


def test_installed_command_works_away_from_the_checkout(wheel, tmp_path):
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    code = f"import sys; sys.path.insert(0, {str(target)!r}); "
    code += "from rearrange.cli import main; import rearrange; print(rearrange.__file__); "
    code += "sys.exit(main(['evaluate', 'task=nonsense']))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(target))
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown task 'nonsense': choose from ")
