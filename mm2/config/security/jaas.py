"""Parser of sasl.jaas.config: one login module, its control flag, its options, a semicolon.

::

    org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";

Java parses it with a StreamTokenizer: words of letters, digits and ``. - _ $``; text in double or single quotes with
C escapes; Java comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\r\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z0-9._$\-\u00a0-\u00ff]+)
    |"(?P<double>(?:[^"\\\r\n]|\\.)*)"
    |'(?P<single>(?:[^'\\\r\n]|\\.)*)'
    |(?P<symbol>[=;])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is not a login module. The message is a rule, and contains none of the text, which is secret."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The class name of a login module, and its options."""

    name: str
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_symbol: bool = False


_END = _Token(";", is_symbol=True)
_EQUALS = _Token("=", is_symbol=True)


def parse(text: str) -> LoginModule:
    """Parse the value of sasl.jaas.config. Raises JaasError."""
    tokens = list(_tokens(text))
    if not tokens:
        raise JaasError("must contain a login module")
    if tokens[-1] != _END:
        raise JaasError("must end with a semicolon")
    if tokens.count(_END) > 1:
        raise JaasError("must contain only one login module")
    name, *rest = tokens[:-1] or [_END]
    if name.is_symbol or not rest or rest[0].text.lower() not in _FLAGS:
        raise JaasError("must start with a login module followed by required")
    return LoginModule(name.text, dict(_options(rest[1:])))


def _options(tokens: list[_Token]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(tokens), 3):
        name, *rest = tokens[start : start + 3]
        if name.is_symbol or len(rest) < 2 or rest[0] != _EQUALS or rest[1].is_symbol:
            raise JaasError("must have options of the form name=value, separated by spaces")
        yield name.text, rest[1].text


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("must have matching quotes, and quotes around options with special characters")
        position = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescaped, match[kind]))
        elif kind != "space":
            yield _Token(match[0], is_symbol=kind == "symbol")


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPED.get(escape, escape)
