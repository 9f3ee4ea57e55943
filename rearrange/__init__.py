"""rearrange: the Home Assistant Benchmark on MuJoCo.

The folders `skills`, `planner`, `eval` and `configs` of the checkout are imported as
`rearrange.skills` and so on. An installed wheel holds them inside this package; in a checkout that
is not installed the lines below let Python find them beside it.
"""

from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent
if (_CHECKOUT / "skills" / "__init__.py").is_file() and (_CHECKOUT / "pyproject.toml").is_file():
    __path__.append(str(_CHECKOUT))

__version__ = "0.1.0"
