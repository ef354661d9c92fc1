"""Functions of Spark that a query cannot use: the value of a row would depend on more than its record.

`spark_functions` lists them. Functions that Spark does not know are found by Spark when the flow starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice, takewhile
from operator import itemgetter

from sqlglot import Token, TokenType

from mm2.config.sql.parsed_query import ParsedQuery, nesting
from mm2.config.sql.query_finding import QueryFinding
from mm2.config.sql.spark_functions import FUNCTIONS
from mm2.core.settings.relative_times import is_relative_time
from mm2.core.settings.row_query import TABLE


class FunctionKind(StrEnum):
    """What the value of a function depends on. ``DETERMINISTIC``: on its arguments only."""

    DETERMINISTIC = "deterministic"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    GENERATOR = "generator"
    NONDETERMINISTIC = "nondeterministic"
    RANDOM_IV = "random iv"
    CLOCK = "clock"
    SESSION = "session"
    FILE = "file"
    REFLECTION = "reflection"


KINDS: Mapping[str, FunctionKind] = {
    name: FunctionKind(kind) for kind, names in FUNCTIONS.items() for name in names.split()
}
"""Kinds of functions by their names. ``NAME/COUNT`` is a function that has another kind with so many arguments."""

_BY_COUNT = frozenset(name.partition("/")[0] for name in KINDS if "/" in name)

_ANY_RECORD = "a query is evaluated for each record by itself"

_RULES: Mapping[FunctionKind, tuple[str, str]] = {
    FunctionKind.AGGREGATE: (
        f"is an aggregate function: {_ANY_RECORD}",
        "use expressions over one record, or a stream processor",
    ),
    FunctionKind.WINDOW: (
        f"is a window function: {_ANY_RECORD}",
        "use expressions over one record, or a stream processor",
    ),
    FunctionKind.GENERATOR: (
        "returns several rows: a record stays one record, or is dropped",
        "use functions of arrays, such as transform and filter",
    ),
    FunctionKind.NONDETERMINISTIC: (
        "is not deterministic: a record that is copied again would differ",
        "derive the value from the record, for example with sha2 or xxhash64",
    ),
    FunctionKind.RANDOM_IV: (
        "encrypts a value differently each time, unless it has an IV or the mode 'ECB'",
        "derive the IV from the record: aes_encrypt(value, key, 'GCM', 'DEFAULT', substr(sha2(value, 256), 1, 12))",
    ),
    FunctionKind.CLOCK: ("depends on when the query runs, not on the record", "use the column timestamp"),
    FunctionKind.SESSION: ("depends on the Spark session, not on the record", "write the value into the query"),
    FunctionKind.FILE: ("is about files: records do not come from files", "remove it"),
    FunctionKind.REFLECTION: (
        "calls any method of a Java class, which Spark cannot check",
        "use functions of Spark SQL",
    ),
}

_MODE, _IV = 2, 4

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
"""Tokens of names. The parser has types of their own for the functions that need no parentheses."""

_NAME = re.compile(r"[A-Za-z_]\w*|`[^`]*`")
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_LIKE = (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_QUANTIFIERS = ("any", "some")
_COMPARISONS = ("=", "==", "<=>", "<", "<=", ">", ">=", "<>", "!=", "between")
_TIME_FUNCTIONS = (
    *("date", "timestamp", "to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz"),
    *("try_to_date", "try_to_timestamp"),
)
_TIME_TYPES = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz")


def check_functions(query: ParsedQuery) -> Iterator[QueryFinding]:
    """Return the functions, and the time literals, whose values do not depend on the record alone."""
    tokens = query.tokens
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.token_type in _STRINGS and is_relative_time(token.text):
            if before is not None and before.text.lower() in _TIME_TYPES:
                yield _relative_time(before, f"{before.text} {query.source(token)}")
            elif _becomes_a_time(query, index):
                yield _relative_time(token, f"{query.source(token)} as a time")
        elif _is_function(query, index, before):
            name, kind = _call(query, index)
            if kind is not FunctionKind.DETERMINISTIC:
                rule, fix = _RULES[kind]
                yield QueryFinding(offset=token.start, rule=f"{name} {rule}", fix=fix)


def _call(query: ParsedQuery, index: int) -> tuple[str, FunctionKind]:
    """Return the name of the function at ``index``, as messages show it, and its kind with these arguments."""
    name = query.tokens[index].text.lower()
    kind = KINDS.get(name, FunctionKind.DETERMINISTIC)
    if kind is FunctionKind.RANDOM_IV and _is_deterministic_aes(_arguments(query, index + 1)):
        return name, FunctionKind.DETERMINISTIC
    if name in _BY_COUNT:
        count = len(_arguments(query, index + 1))
        kind = KINDS.get(f"{name}/{count}", kind)
        return f"{name} with {count} arguments" if count else f"{name}()", kind
    return name, kind


def check_strings(query: ParsedQuery) -> Iterator[QueryFinding]:
    r"""Return warnings about escapes that Spark SQL drops or reads as a backspace, such as those of ``'\d+\b'``."""
    for token in query.tokens:
        if token.token_type is not TokenType.STRING:
            continue
        for match in _ESCAPE.finditer(query.source(token)):
            if _KNOWN_ESCAPE.match(match[0]) is None:
                meaning = "is a backspace" if match[0] == r"\b" else f"is only {match[0][1]}"
                yield QueryFinding(
                    offset=token.start + match.start(),
                    rule=f"{match[0]} {meaning} in a text of Spark SQL",
                    without_text="a backslash in a text of Spark SQL is dropped, or is part of a backspace",
                    fix=r"write a raw string, such as r'\d+', or each backslash twice"
                    " (in a properties file, write every backslash of the query twice)",
                    is_warning=True,
                )


_ESCAPE = re.compile(r"\\(?:[0-3][0-7]{2}|.)", re.DOTALL)
_KNOWN_ESCAPE = re.compile(r"""\\(?:[0-3][0-7]{2}|[0'"nrtZ\\%_uU\n])""")
"""As in Spark's SparkParserUtils.unescapeSQLString, except for ``\\b``, which is meant as a word boundary."""


def _relative_time(token: Token, text: str) -> QueryFinding:
    rule, fix = _RULES[FunctionKind.CLOCK]
    return QueryFinding(
        offset=token.start, rule=f"{text} {rule}", fix=fix, without_text=f"a text that is read as a time {rule}"
    )


def _becomes_a_time(query: ParsedQuery, index: int) -> bool:
    """Return whether a text is cast to a time, an argument of a function that does so, or compared with timestamp."""
    words = ["", "", "", "", *(token.text.lower() for token in query.tokens), "", "", "", ""]
    *of, name, before = words[index : index + 4]
    after, then, *last = words[index + 5 : index + 9]
    if before == "(":
        if name in ("cast", "try_cast"):
            return after == "as" and then in _TIME_TYPES
        return name in _TIME_FUNCTIONS
    if after == "::":
        return then in _TIME_TYPES
    if before in _COMPARISONS:
        return name == "timestamp" and (of[1] != "." or of[0] == TABLE)
    return after in _COMPARISONS and (then == "timestamp" or (then, *last) == (TABLE, ".", "timestamp"))


def _is_deterministic_aes(arguments: Sequence[Sequence[Token]]) -> bool:
    """Return whether a call of aes_encrypt(value, key, mode, padding, iv, aad) has the mode ECB or an IV."""
    given: dict[int | str, Sequence[Token]] = {}
    for at, argument in enumerate(arguments):
        if len(argument) > 1 and argument[1].token_type is TokenType.FARROW:
            given[argument[0].text.lower()] = argument[2:]
        else:
            given[at] = argument
    mode, iv = given.get("mode", given.get(_MODE, ())), given.get("iv", given.get(_IV, ()))
    if len(iv) == 1 and iv[0].token_type in _STRINGS and not iv[0].text:
        return False
    return bool(iv) or (len(mode) == 1 and mode[0].text.upper() == "ECB")


def _arguments(query: ParsedQuery, opening: int) -> list[list[Token]]:
    """Return the tokens of each argument of a call, whose parenthesis is at index ``opening``."""
    found: list[list[Token]] = [[]]
    tokens = query.tokens[opening:]
    inside = takewhile(itemgetter(1), zip(tokens, nesting(tokens), strict=True))
    for token, depth in islice(inside, 1, None):
        if depth == 1 and token.token_type is TokenType.COMMA:
            found.append([])
        else:
            found[-1].append(token)
    return found if found != [[]] else []


def _is_function(query: ParsedQuery, index: int, before: Token | None) -> bool:
    token = query.tokens[index]
    name = token.text.lower()
    if _NAME.fullmatch(query.source(token)) is None:
        return False
    following = query.tokens[index + 1].token_type if index + 1 < len(query.tokens) else None
    if following is TokenType.L_PAREN:
        return not (name in _QUANTIFIERS and before is not None and before.token_type in _LIKE)
    is_field = before is not None and before.token_type is TokenType.DOT
    is_alias = before is not None and before.token_type is TokenType.ALIAS
    is_keyword = token.token_type not in _NAMES and KINDS.get(name) in (FunctionKind.CLOCK, FunctionKind.SESSION)
    return is_keyword and not (is_field or is_alias)
