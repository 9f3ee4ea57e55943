# onnxscript is of an extra; it is only imported.
from typing import Any

def __getattr__(name: str) -> Any: ...
