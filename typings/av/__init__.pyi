# Of the extra `collect`: the same with and without it, what it gives is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
