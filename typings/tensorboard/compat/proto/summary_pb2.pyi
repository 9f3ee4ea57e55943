# Its classes are created on import.
from typing import Any

Summary: Any
