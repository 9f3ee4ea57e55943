"""What the layout's tests ask of a Python file, gathered in one walk over its syntax tree."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Source:
    docstring: str | None
    num_lines: int
    first_imports: set[str]
    """Names that are imported as soon as the module is."""
    imports: set[str] = field(default_factory=set)
    """Those inside functions too."""
    texts: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    """What is called, as it is written: "os.system"."""
    functions: list[tuple[str, int]] = field(default_factory=list)
    """(name, lines) of each."""


def imports(node: ast.AST) -> Iterator[str]:
    """Names that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "a relative import"
        yield str(node.module)
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def source(path: Path) -> Source:
    text = path.read_text()
    tree = ast.parse(text, str(path))
    found = Source(
        ast.get_docstring(tree), len(text.splitlines()),
        {name for node in tree.body for name in imports(node)},
    )  # fmt: skip
    for node in ast.walk(tree):
        found.imports.update(imports(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.texts.add(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            found.calls.add(ast.unparse(node.func))
        elif isinstance(node, FUNCTIONS):
            found.functions.append((node.name, node.end_lineno - node.lineno + 1))
    return found
