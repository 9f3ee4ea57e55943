# Warp comes with MuJoCo Warp, which is of an extra: what it gives is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
