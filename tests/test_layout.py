"""Rooms: imports go one way, every file is in the wheel, nothing is imported by its bare name."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.sources import source

ROOT = Path(__file__).parents[1]
LINKED = ("skills", "planner", "eval", "configs")  # folders beside the package, linked into it

# From the ground up: a room uses itself and those above it in this list, none below it. What
# begins with a room's name belongs to the longest such name.
ROOMS = (
    "rearrange.errors", "rearrange.renamed_settings", "rearrange.system",
    "rearrange.checked_arguments", "rearrange.workloads",
    "rearrange.sim.native", "rearrange.sim.robot", "rearrange.sim.home", "rearrange.sim.homes",
    "rearrange.sim.pictures", "rearrange.sim", "rearrange.sim.visuals",
    "rearrange.tasks.rules", "rearrange.tasks.episodes", "rearrange.tasks", "rearrange.habitat",
    "rearrange.ver.ranks", "rearrange.ver.workers", "rearrange.ver.bridge",
    "rearrange.ver.rollout", "rearrange.ver.batched", "rearrange.ver.update", "rearrange.ver.sapg",
    "rearrange.ver.run", "rearrange.ver",
    "rearrange.skills", "rearrange.skills.network.pictures", "rearrange.skills.network",
    "rearrange.skills.motion",
    "rearrange.skills.oracle", "rearrange.skills.teacher", "rearrange.skills.deployed",
    "rearrange.planner", "rearrange.planner.strips", "rearrange.planner.home",
    "rearrange.planner.agents",
    "rearrange.cluster", "rearrange.configs",
    "rearrange.eval.film", "rearrange.eval", "rearrange.eval.habitat",
    "rearrange.eval.demonstrations", "rearrange.eval.view", "rearrange.eval.benchmarks",
    "rearrange.eval.benchmarks.homes", "rearrange.eval.benchmarks.peers",
    "rearrange.eval.benchmarks.trainers", "rearrange.eval.benchmarks.scaling",
    "rearrange.eval.benchmarks.chaos", "rearrange.eval.benchmarks.soak",
    "rearrange.eval.benchmarks.campaigns", "rearrange.eval.benchmarks.staggered",
    "rearrange.commands", "rearrange.commands.results", "rearrange.commands.training",
    "rearrange.commands.skills", "rearrange.commands.exchange", "rearrange",
)  # fmt: skip
# Some know less than their place in the list would let them: what they may use, beside the ground.
GROUND = {
    "rearrange.errors", "rearrange.renamed_settings", "rearrange.system",
    "rearrange.checked_arguments",
}  # fmt: skip
ONLY = {
    "rearrange.workloads": set(),
    "rearrange.ver": set(),  # the trainer knows neither the home nor the network
    "rearrange.planner.strips": set(),  # the planner proper knows no home
    "rearrange.cluster": {"rearrange.ver"},
}
# where the processes that step environments and run the oracle begin
WORKER_ROOTS = (
    "rearrange.ver.workers.environment_worker", "rearrange.ver.bridge.",
    "rearrange.workloads.straggler",
    "rearrange.workloads.classic", "rearrange.skills.oracle", "rearrange.sim.",
    "rearrange.tasks.", "rearrange.planner.",
)  # fmt: skip
# ... and what they import only once pictures are asked for
FOR_PICTURES = "rearrange.sim.visuals."
HEAVY = {"torch", "matplotlib", "scipy", "imageio", "hydra", "tensorboard", "PIL"}
MOST_MODULES = 12  # in a room
MOST_LINES = 400  # in a module; most have 100 to 250
LONGEST = 80  # lines of a function: more does not fit a screen
# Longer ones, and why: "module.function": "reason".
LONG: dict[str, str] = {}


def modules():
    """(module name, path) of every Python file that is installed."""
    for folder in ["rearrange", *LINKED]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "rearrange" else ("rearrange", *parts)
            if not any(parent.is_symlink() for parent in path.parents):
                yield ".".join(parts).removesuffix(".__init__"), path


def beside():
    """The same for tests and examples, which are not installed."""
    for folder in ("tests", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def entry_points(path, known):
    """Modules that a file names in a text, to be imported by name: "rearrange.tasks.env:Env"."""
    names = {text.partition(":")[0] for text in source(path).texts}
    return names & set(known) - {"rearrange"}


def room_of(name):
    fits = [room for room in ROOMS if name == room or name.startswith(room + ".")]
    return max(fits, key=len) if fits else None


def is_in(room, wholes):
    return any(f"{room}.".startswith(f"{whole}.") for whole in wholes)


def uses():
    """{module: the modules of ours that it imports or names as entry points}."""
    paths = dict(modules())
    found = {}
    for name, path in paths.items():
        named = source(path).imports & set(paths) | entry_points(path, paths)
        found[name] = named - {name, "rearrange"}  # all are below the package itself
    return found


def test_imports_go_one_way():
    wrong = []
    for name, used in uses().items():
        own = room_of(name)
        for other in used:
            room = room_of(other)
            is_package = (other + ".") in name + "."  # what it lies in
            if not is_package and ROOMS.index(room) > ROOMS.index(own):
                wrong.append(f"{name} uses {other}, which stands above it")
            whole = next((part for part in ONLY if is_in(own, {part})), None)
            if whole and not is_in(room, {whole, *ONLY[whole]} | GROUND):
                wrong.append(f"{name} uses {other}, of which {whole} knows nothing")
    assert not wrong, "\n".join(wrong)


def test_no_module_needs_itself():
    graph, state = uses(), {}

    def visit(name, way):
        state[name] = "open"
        for other in sorted(graph[name]):
            assert state.get(other) != "open", " -> ".join([*way, name, other])
            if other not in state:
                visit(other, [*way, name])
        state[name] = "done"

    for name in graph:
        if name not in state:
            visit(name, [])


def test_rooms_are_small_and_say_what_they_are_for():
    rooms = {}
    for name, path in modules():
        if path.name == "__init__.py":
            assert source(path).docstring, f"{path} says nothing"
        else:
            rooms.setdefault(path.parent, []).append(name)
    assert not {str(room): len(names) for room, names in rooms.items() if len(names) > MOST_MODULES}
    assert {room_of(name) for names in rooms.values() for name in names} <= {*ROOMS}


def test_folders_of_tests_are_small_too():
    """Test modules and what they need, fixtures and fakes, are counted apart."""
    folders = {}
    for path in [path for _, path in beside() if path.name != "__init__.py"]:
        assert source(path).docstring, f"{path} says nothing"
        folders.setdefault((path.parent, path.name.startswith("test_")), []).append(path.name)
    assert not {
        str(folder): names for folder, names in folders.items() if len(names) > MOST_MODULES
    }


def test_modules_and_functions_can_be_read_at_one_go():
    wrong, found = [], set()
    for name, path in [*modules(), *beside()]:
        if (count := source(path).num_lines) > MOST_LINES:
            wrong.append(f"{name} has {count} lines: are there two subjects in it?")
        for function, length in source(path).functions:
            own = f"{name}.{function}"
            if length > LONGEST:
                found.add(own)
                if own not in LONG:
                    wrong.append(f"{own} has {length} lines: split it, or say why in LONG")
    assert not wrong, "\n".join(wrong)
    assert found == set(LONG), "LONG names functions that are short by now"


def test_what_a_worker_imports_is_light():
    paths = dict(modules())
    to_see = [name for name in paths if name.startswith(WORKER_ROOTS)]
    to_see = [name for name in to_see if not name.startswith(FOR_PICTURES)]
    seen = set()
    while to_see:
        name = to_see.pop()
        imported = source(paths[name]).first_imports
        heavy = {i.split(".")[0] for i in imported} & HEAVY
        assert not heavy, f"{name} imports {heavy} when it is imported"
        seen.add(name)
        to_see += [other for other in imported if other in paths and other not in seen]
    assert {"rearrange.skills.motion.reach", "rearrange.ver.workers.spaces"} <= seen


def test_our_folders_are_never_imported_by_their_bare_names():
    for _, path in [*modules(), *beside()]:
        for imported in source(path).imports:
            assert imported.split(".")[0] not in LINKED, f"{path} imports {imported}"


def test_nothing_is_unpickled_or_evaluated_and_no_yaml_is_trusted():
    for name, path in modules():
        assert not source(path).calls & {"eval", "exec", "yaml.load", "os.system"}, name
        firsts = {imported.split(".")[0] for imported in source(path).imports}
        assert not firsts & {"pickle", "dill", "marshal"}, name


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
    for folder in ["rearrange", *LINKED]:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(target), str(source)], check=True)
    return next(target.glob("*.whl"))


def test_wheel_holds_every_file_of_the_tree(wheel):
    tree = set()
    for folder in ["rearrange", *LINKED]:
        prefix = folder if folder == "rearrange" else f"rearrange/{folder}"
        for path in (ROOT / folder).rglob("*"):
            inner = path.relative_to(ROOT / folder)
            is_left_out = path.suffix == ".md" or "__pycache__" in inner.parts
            if path.is_file() and not path.is_symlink() and not is_left_out:
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


def test_the_packages_that_the_project_is_built_on_are_dependencies():
    """hydra-core also keeps antlr4 at the version that pddlpy's grammar was made with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    assert names >= {"torch", "pddlpy", "numpy", "hydra-core", "imageio", "tensorboard"}
