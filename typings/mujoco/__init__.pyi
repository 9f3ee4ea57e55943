# MuJoCo's classes are compiled and come without types: what they give is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
