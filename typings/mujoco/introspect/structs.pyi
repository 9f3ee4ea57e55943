# A literal of ten thousand lines, which takes a type checker seconds.
from typing import Any

STRUCTS: dict[str, Any]
