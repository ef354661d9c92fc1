"""Parser of sasl.jaas.config: one login module, its control flag, its options, a semicolon; and of JAAS files.

::

    org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";

A file has sections of login modules: ``KafkaClient { MODULE; };`` (javax.security.auth.login.Configuration).

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
    |(?P<symbol>[=;{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is not a login module. The message is a rule, and contains none of the text, which is secret. ``line``:
    counted from 1."""

    def __init__(self, rule: str, line: int = 1) -> None:
        super().__init__(rule)
        self.line = line


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The class name of a login module, and its options. ``line``: where it begins, counted from 1."""

    name: str
    options: dict[str, str] = field(repr=False)
    line: int = 1


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_symbol: bool = False
    line: int = field(default=1, compare=False)


_END = _Token(";", is_symbol=True)
_EQUALS = _Token("=", is_symbol=True)
_OPEN, _CLOSE = _Token("{", is_symbol=True), _Token("}", is_symbol=True)


def parse(text: str) -> LoginModule:
    """Parse the value of sasl.jaas.config. Raises JaasError."""
    return _module(list(_tokens(text)))


def parse_section(text: str, section: str) -> tuple[LoginModule, ...]:
    """Parse the login modules of a section of a JAAS file. Raises JaasError."""
    tokens = list(_tokens(text))
    while tokens:
        name, *rest = tokens
        if name.is_symbol or not rest or rest[0] != _OPEN or _CLOSE not in rest:
            raise JaasError("must have sections of the form NAME { LOGIN MODULE; };", name.line)
        end = rest.index(_CLOSE)
        if name.text == section:
            return tuple(_modules(rest[1:end], name.line))
        if rest[end + 1 : end + 2] != [_END]:
            raise JaasError("must have a semicolon after the } of a section", rest[end].line)
        tokens = rest[end + 2 :]
    raise JaasError(f"must have a section {section}")


def _modules(tokens: list[_Token], line: int) -> Iterator[LoginModule]:
    while tokens:
        end = tokens.index(_END) + 1 if _END in tokens else len(tokens)
        yield _module(tokens[:end], line)
        tokens = tokens[end:]
        if not tokens:
            return
    yield _module([], line)


def _module(tokens: list[_Token], line: int = 1) -> LoginModule:
    if not tokens:
        raise JaasError("must contain a login module", line)
    if tokens[-1] != _END:
        raise JaasError("must end with a semicolon", tokens[-1].line)
    if tokens.count(_END) > 1:
        raise JaasError("must contain only one login module", tokens[0].line)
    name, *rest = tokens[:-1] or [_END]
    if name.is_symbol or not rest or rest[0].text.lower() not in _FLAGS:
        raise JaasError("must start with a login module followed by required", tokens[0].line)
    return LoginModule(name.text, dict(_options(rest[1:])), name.line)


def _options(tokens: list[_Token]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(tokens), 3):
        name, *rest = tokens[start : start + 3]
        if name.is_symbol or len(rest) < 2 or rest[0] != _EQUALS or rest[1].is_symbol:
            raise JaasError("must have options of the form name=value, separated by spaces", name.line)
        yield name.text, rest[1].text


def _tokens(text: str) -> Iterator[_Token]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("must have matching quotes, and quotes around options with special characters", line)
        position = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescaped, match[kind]), line=line)
        elif kind != "space":
            yield _Token(match[0], is_symbol=kind == "symbol", line=line)
        line += match[0].count("\n")


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPED.get(escape, escape)
