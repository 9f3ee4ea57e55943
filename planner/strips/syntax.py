"""PDDL text -> pddlpy's parse tree, or one clear line about the error in the text.

    text - pddlpy's lexer -> tokens - checks, small repairs -> tokens - pddlpy's parser -> tree

pddlpy 0.3.3 prints errors to stderr and continues with what it could parse. Here its error
listeners raise instead, and the tokens are repaired in between, because its grammar (PDDL 3.1)
- reserves words such as `at`, `start`, `end` or `number`, which plain STRIPS uses as names;
- accepts `=` between numbers only, so that `(= ?x ?y)` is a syntax error;
- requires one order of sections, where authors often put `:predicates` before `:constants`;
- accepts keywords in lower case only, whereas PDDL is case-insensitive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from antlr4 import CommonTokenStream, InputStream, ParserRuleContext, Token
from antlr4.error.ErrorListener import ErrorListener
from antlr4.ListTokenSource import ListTokenSource
from pddlpy.pddlLexer import pddlLexer
from pddlpy.pddlParser import pddlParser

from rearrange.errors import UserError

MAX_CHARACTERS = 1_000_000
"""About 10 s of parsing; published STRIPS problems stay far below."""
MAX_DEPTH = 32
"""Nested parentheses. STRIPS needs 6; pddlpy's parser recurses at each level."""

REQUIREMENTS = (":strips", ":typing", ":negative-preconditions", ":equality")

# Features beyond STRIPS, by their keyword.
_UNSUPPORTED = {
    "or": "disjunctions", "imply": "implications", "exists": "quantifiers", "forall": "quantifiers",
    "when": "conditional effects", "preference": "preferences", "either": "`either` types",
    "assign": "numeric effects", "scale-up": "numeric effects", "scale-down": "numeric effects",
    "increase": "numeric effects", "decrease": "numeric effects",
    ":functions": "numeric functions", ":durative-action": "durative actions",
    ":duration": "durative actions", ":condition": "durative actions",
    ":derived": "derived predicates", ":constraints": "constraints", ":metric": "metrics",
    ">": "numeric comparisons", "<": "numeric comparisons", ">=": "numeric comparisons",
    "<=": "numeric comparisons", "*": "arithmetic", "+": "arithmetic", "/": "arithmetic",
}  # fmt: skip
# Words that stay keywords for the parser; all others become names.
_KEYWORDS = {"and", "not"}
_HEADER = 4  # "( define ( domain": here `define`, `domain` and `problem` are keywords, later names
# The order of sections that pddlpy's grammar requires in a domain and a problem.
_SECTIONS = (":domain", ":requirements", ":types", ":constants", ":predicates", ":action",
             ":objects", ":init", ":goal")  # fmt: skip


def parse_tree(text: str, kind: str, source: str) -> ParserRuleContext:
    """pddlpy's parse tree of one `kind` ("domain" or "problem").

    `source` names the text in errors: a file name, usually. Raises UserError with source and line.
    """
    if len(text) > MAX_CHARACTERS:
        raise UserError(
            f"{source}: PDDL text may have {MAX_CHARACTERS:,} characters, this has {len(text):,}"
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n").lower()
    _check_requirements(text, source)
    tokens = _tokens(text, source)
    _check_parentheses(tokens, source)
    _check_header(tokens, kind, source)
    _check_supported(tokens, source)
    if kind == "problem":
        _check_sections(tokens, source)
    _free_names(tokens)
    parser = pddlParser(CommonTokenStream(ListTokenSource(_sort_sections(tokens))))
    parser.removeErrorListeners()
    parser.addErrorListener(_Raise(source))
    try:
        return parser.domain() if kind == "domain" else parser.problem()
    except RecursionError:
        raise UserError(f"{source}: formulas are nested too deeply to be read") from None


def fail(source: str, where: ParserRuleContext | Token, what: str) -> NoReturn:
    """Raises a UserError about a place in the text: "domain.pddl, line 7: ..."."""
    line = where.line if isinstance(where, Token) else where.start.line
    raise UserError(f"{source}, line {line}: {what}")


class _Raise(ErrorListener):
    """Turns the first error of pddlpy's lexer or parser into a UserError."""

    def __init__(self, source: str) -> None:
        self.source = source

    def syntaxError(  # noqa: N802
        self,
        recognizer: object,
        offendingSymbol: object,
        line: int,
        column: int,
        msg: str,
        e: object,  # noqa: N803
    ) -> NoReturn:
        what = " ".join(msg.split())
        if isinstance(recognizer, pddlLexer):
            what = f"these characters are not PDDL: {what.partition('at: ')[2] or what}"
        if len(what) > 160:
            what = what[:157] + "..."
        raise UserError(f"{self.source}, line {line}: {what}")


def _tokens(text: str, source: str) -> list[Token]:
    # A comment needs its line end in pddlpy's grammar, also on the last line.
    lexer = pddlLexer(InputStream(text + "\n"))
    lexer.removeErrorListeners()
    lexer.addErrorListener(_Raise(source))
    tokens = lexer.getAllTokens()
    if not tokens:
        raise UserError(f"{source}: there is no PDDL in this text")
    return tokens


def _check_requirements(text: str, source: str) -> None:
    """Checks the domain's requirements, before the lexer cuts those that it does not know."""
    text = re.sub(";.*", lambda comment: " " * len(comment[0]), text)
    for section in re.finditer(r"\(\s*:requirements\b([^()]*)", text):
        for word in re.finditer(r":\S+", section[1]):
            if word[0] not in REQUIREMENTS:
                line = text.count("\n", 0, section.start(1) + word.start()) + 1
                known = " ".join(REQUIREMENTS)
                raise UserError(
                    f"{source}, line {line}: {word[0]} is not supported; supported are {known}"
                )


def _check_parentheses(tokens: Sequence[Token], source: str) -> None:
    open_at: list[Token] = []
    for index, token in enumerate(tokens):
        if token.text == "(":
            open_at.append(token)
            if len(open_at) > MAX_DEPTH:
                fail(source, token, f"more than {MAX_DEPTH} nested parentheses")
        elif token.text == ")":
            if not open_at:
                fail(source, token, "this `)` closes nothing")
            open_at.pop()
            if not open_at and index + 1 < len(tokens):
                fail(source, tokens[index + 1], "text after the end of the definition")
    if open_at:
        fail(source, open_at[-1], "this `(` is never closed")


def _check_header(tokens: Sequence[Token], kind: str, source: str) -> None:
    texts = [token.text for token in tokens[:_HEADER]]
    if texts[:3] != ["(", "define", "("] or len(texts) < _HEADER:
        fail(source, tokens[0], f"a {kind} begins with `(define ({kind} NAME)`")
    if texts[3] != kind:
        fail(source, tokens[3], f"a {kind} is needed here, this is `(define ({texts[3]} ...`")


def _check_supported(tokens: Sequence[Token], source: str) -> None:
    for before, token in zip(tokens, tokens[1:], strict=False):
        word = token.text
        if token.type == pddlLexer.NUMBER:
            fail(source, token, f"numbers are not supported, and names begin with a letter: {word}")
        if word in _UNSUPPORTED and (before.text == "(" or not word[0].isalpha()):
            fail(source, token, f"{_UNSUPPORTED[word]} (`{word}`) are not supported")


def _check_sections(tokens: Sequence[Token], source: str) -> None:
    """Checks that a problem has a domain, a start and a goal."""
    opened = {
        token.text: following.text
        for before, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if before.text == "("
    }
    for section in (":domain", ":init", ":goal"):
        if section not in opened:
            fail(source, tokens[-1], f"the problem ends without a section ({section} ...)")
    if opened[":goal"] == ")":
        place = next(token for token in tokens if token.text == ":goal")
        fail(source, place, "(:goal) is empty: write (:goal (and FACT ...))")


def _free_names(tokens: Sequence[Token]) -> None:
    """Turns words that pddlpy's grammar reserves for PDDL 3.1, and `=`, into names."""
    for index, token in enumerate(tokens):
        if index < _HEADER or token.text in _KEYWORDS:
            continue
        if token.text[0].isalpha() or token.text == "=":
            token.type = pddlLexer.NAME
        elif token.text[0] == "?":
            token.type = pddlLexer.VARIABLE


def _sort_sections(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with the definition's sections in pddlpy's order; equal ones keep theirs."""
    sections: list[list[Token]] = []
    depth = 0
    for token in tokens[1:-1]:
        if depth == 0:
            sections.append([])
        sections[-1].append(token)
        depth += {"(": 1, ")": -1}.get(token.text, 0)

    def rank(section: list[Token]) -> int:
        word = section[1].text if len(section) > 1 else ""
        return _SECTIONS.index(word) if word in _SECTIONS else -1

    # `define` and the name stay in front; then unknown sections, which the parser rejects.
    body = sorted(sections[2:], key=rank)
    return [tokens[0], *(t for section in sections[:2] + body for t in section), tokens[-1]]
