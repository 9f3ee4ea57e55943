# antlr4 comes without types. What we use of it; a rule's parts are methods that its grammar names.
from typing import Any

class Token:
    type: int
    text: str
    line: int
    column: int

class ParserRuleContext:
    start: Token
    def getChildren(self) -> Any: ...
    def getChild(self, i: int) -> Any: ...
    def getChildCount(self) -> int: ...
    def __getattr__(self, name: str) -> Any: ...

class InputStream:
    def __init__(self, data: str) -> None: ...

class CommonTokenStream:
    def __init__(self, lexer: Any) -> None: ...
