"""What tests and examples import exists, also where they are skipped or start programs.

A test that needs a GPU, a browser or an extra is not run by most people: a name that is gone would
be found by whoever has them.
"""

import ast
import functools
import importlib
import importlib.util
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted(path for folder in ("tests", "examples") for path in (ROOT / folder).rglob("*.py"))
OWN = {path.stem: path for path in FILES if "old_gym" not in path.parts}  # a package by itself


@functools.cache
def names_of(module):
    """What can be imported from it; None if it belongs to somebody else."""
    first, _, rest = module.partition(".")
    if first == "rearrange":
        return set(dir(importlib.import_module(module)))
    if first == "tests":
        return bound(ast.parse((ROOT / "tests" / f"{rest.replace('.', '/')}.py").read_text()))
    return bound(ast.parse(OWN[module].read_text())) if module in OWN else None


def bound(tree):
    """Names that a module binds by itself or by what it imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
    return found


def exists(module, name):
    names = names_of(module)
    if names is None or name in names:
        return True
    return module.startswith("rearrange") and is_there(f"{module}.{name}")


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it should lie in is no package
        return False


def missing(tree):
    """Imported names, and attributes of imported modules of ours, that do not exist."""
    modules, hidden = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname: alias.name for alias in node.names if alias.asname}
            wrong = [a.name for a in node.names if a.name.startswith("rearrange.")]
            yield from (name for name in wrong if not is_there(name))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if not exists(node.module, alias.name):
                    yield whole
                elif whole.startswith("rearrange.") and is_module(whole):
                    modules[alias.asname or alias.name] = whole
        elif isinstance(node, ast.arg):
            hidden.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            hidden.add(node.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id) if node.value.id not in hidden else None
            if module and isinstance(node.ctx, ast.Load) and not exists(module, node.attr):
                yield f"{module}.{node.attr}"


def is_module(name):
    """Not so where a package has something else by that name: rearrange.evaluate is a function."""
    package, _, last = name.rpartition(".")
    inside = vars(importlib.import_module(package)).get(last)
    return inside is None or isinstance(inside, type(importlib))


def programs(tree):
    """Python code in texts, which other processes run."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and "import" in str(node.value):
            try:
                yield ast.parse(textwrap.dedent(str(node.value)))
            except SyntaxError:  # prose, or a part of a text with braces
                continue


def test_what_is_imported_exists():
    wrong = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        names = [name for part in (tree, *programs(tree)) for name in missing(part)]
        wrong += [f"{path.relative_to(ROOT)}: there is no {name}" for name in names]
    assert not wrong, "\n".join(wrong)


def test_a_name_that_is_gone_is_found():
    gone = "nothing"
    code = f"from rearrange import errors\nfrom rearrange.errors import {gone}\nerrors.{gone}\n"
    code += f"import rearrange.{gone}\nfrom tests.waits import LIMIT_S, {gone}\n"
    places = ["rearrange.errors"] * 2 + ["rearrange", "tests.waits"]
    assert sorted(missing(ast.parse(code))) == sorted(f"{place}.{gone}" for place in places)
