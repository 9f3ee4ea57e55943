# onnx is of an extra: the same with and without it, what it gives is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
