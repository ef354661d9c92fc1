"""Parsing of one query: tokens with their places in the text, and sqlglot's syntax tree.

Expressions are cut from the text and never generated from the tree, because sqlglot writes some functions of Spark in
another way than the user did.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from mm2.config.sql.query_finding import QueryFinding, QuerySyntaxError

FORM = "write SELECT expressions FROM records WHERE condition"

_QUOTED = re.compile(r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?!/\*)[^'"`])""", re.DOTALL)
"""A quoted text, a comment, or any other character."""

logging.getLogger("sqlglot").setLevel(
    logging.CRITICAL
)  # it warns about translations between dialects, none is done here


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """``text`` as one statement: its ``tokens``, without a final semicolon, and its syntax ``tree``."""

    text: str
    tokens: Sequence[Token]
    tree: exp.Expr

    def source(self, token: Token) -> str:
        """Return a token as it is written, with its quotes."""
        return self.text[token.start : token.end + 1]

    def cut(self, first: int, last: int) -> str:
        """Return the text of tokens ``first`` to ``last``, both included, with single spaces and without comments."""
        parts = [""]
        end = self.tokens[first].start
        for token in self.tokens[first : last + 1]:
            if token.start > end:
                parts.append(" ")
            if token.end >= end:  # one number can be several tokens at the same place, as in 10L
                parts.append(self.source(token))
            end = max(end, token.end + 1)
        return "".join(parts)

    def index_at(self, offset: int) -> int:
        """Return the index of the token at ``offset``."""
        return next(index for index, token in enumerate(self.tokens) if token.end >= offset)

    def offset_of(self, *types: TokenType) -> int:
        """Return where the last token of one of ``types`` starts; 0 if there is none."""
        return next((token.start for token in reversed(self.tokens) if token.token_type in types), 0)


_DEPTHS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}


def nesting(tokens: Sequence[Token]) -> Iterator[int]:
    """Return how many parentheses and brackets are open after each token."""
    return accumulate(_DEPTHS.get(token.token_type, 0) for token in tokens)


def parse(text: str) -> ParsedQuery:
    """Return ``text``, parsed as one statement of Spark SQL. Raises QuerySyntaxError."""
    dialect = Spark()
    try:
        tokens = dialect.tokenize(text)
    except TokenError as error:
        raise _unreadable(text) from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise QuerySyntaxError(QueryFinding(offset=0, rule="is empty", fix=FORM))
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            raise _syntax_error(token.start, "must be one statement", "remove the semicolon and what follows it")
    try:
        trees = dialect.parser().parse(tokens, text)
    except ParseError as error:
        raise _at_error(error, tokens) from error
    except RecursionError as error:
        raise _syntax_error(0, "expressions are nested too deeply", "simplify the query") from error
    except Exception as error:  # sqlglot asserts what some invalid texts do not fulfil
        raise _syntax_error(0, "cannot be read as SQL", FORM) from error
    tree = trees[0] if trees else None
    if tree is None:
        raise _syntax_error(0, "is not a statement of SQL", FORM)
    return ParsedQuery(text=text, tokens=tokens, tree=tree)


def _at_error(error: ParseError, tokens: Sequence[Token]) -> QuerySyntaxError:
    """Return the first error of the parser, at its token."""
    first = error.errors[0]
    place = (first["line"], first["col"])
    token = next((token for token in tokens if (token.line, token.col) == place), tokens[-1])
    description = str(first["description"])
    missing = f": {description.lower()}" if description.startswith("Expect") else ""
    rule = f"syntax error at or near {token.text}{missing}"
    return _syntax_error(token.start, rule, "correct the query", without_text="syntax error")


def _unreadable(text: str) -> QuerySyntaxError:
    """Return the error for a text that has no tokens: usually a quote is not closed."""
    position = 0
    while (match := _QUOTED.match(text, position)) is not None:
        position = match.end()
    opening = "/*" if text.startswith("/*", position) else text[position : position + 1]
    if opening:
        closing = "*/" if opening == "/*" else opening
        return _syntax_error(position, f"{opening} is not closed", f"add the closing {closing}")
    return _syntax_error(0, "cannot be read as SQL", FORM)


def _syntax_error(offset: int, rule: str, fix: str, *, without_text: str | None = None) -> QuerySyntaxError:
    return QuerySyntaxError(QueryFinding(offset=offset, rule=rule, fix=fix, without_text=without_text))
