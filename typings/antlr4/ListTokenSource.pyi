from collections.abc import Sequence

from antlr4 import Token

class ListTokenSource:
    def __init__(self, tokens: Sequence[Token]) -> None: ...
