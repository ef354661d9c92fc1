"""response.http.headers.config: headers of every response of the REST interface (KIP-577).

    rules    rule ("," rule)* [","]          a rule that contains a comma is enclosed in double quotes; \\" is a quote
    rule     action space name ":" value     the value contains no colon, as in Java
    action   set | add                       in any case; the value is sent unchanged
             setDate | addDate               in any case; the value is milliseconds from now, sent as a date

Headers that every response has (Content-Type, Content-Length, …) take precedence over ``set`` and ``add``, as in Java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ACTIONS = ("set", "add", "setDate", "addDate")
_BY_LOWER_CASE = {action.lower(): action for action in _ACTIONS}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[ -~\x80-\xff]+")
"""Characters that HTTP/1.1 allows: single bytes without control characters."""
_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)(?:"[^,]*)?(?:,|$)', re.DOTALL)
_BARE = re.compile(r"([^,]*)(?:,|$)")
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,13}")
"""At most 317 years, so that the date stays within Python's limit, the year 9999."""


class ResponseHeadersError(ValueError):
    """The rules are invalid; the message contains the rule they break."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderRule:
    """One header. ``adds``: keep other headers of this name instead of replacing them. If ``date_in_ms`` is given, the
    header is the date that many milliseconds after the response, and ``value`` is empty."""

    name: str
    value: str = ""
    adds: bool = False
    date_in_ms: int | None = None


def read_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Return the rules in order. Raises ResponseHeadersError."""
    return tuple(_rule(element) for element in _split(text)) if text.strip() else ()


def _split(text: str) -> list[str]:
    elements, position = [], 0
    while position < len(text):
        quoted = _QUOTED.match(text, position)
        match = quoted or _BARE.match(text, position)
        assert match is not None
        elements.append(re.sub(r"\\(.)", r"\1", match[1]) if quoted else match[1])
        position = match.end()
    return elements


def _rule(text: str) -> HeaderRule:
    parts = text.split(maxsplit=1)
    if len(parts) != 2:
        raise ResponseHeadersError(
            f"must be comma-separated rules such as set X-Frame-Options: DENY; {text!r} is not a rule"
        )
    action = _BY_LOWER_CASE.get(parts[0].lower())
    if action is None:
        raise ResponseHeadersError(f"must have rules that start with {', '.join(_ACTIONS)}; {text.strip()!r} does not")
    name, *values = (part.strip() for part in parts[1].split(":"))
    if len(values) != 1 or not values[0]:
        raise ResponseHeadersError(
            f"must have rules with a name, one colon and a value, as in Java, not {text.strip()!r}"
        )
    if not _TOKEN.fullmatch(name):
        raise ResponseHeadersError(f"must contain valid header names; {name!r} is not valid")
    if not _VALUE.fullmatch(values[0]):
        raise ResponseHeadersError(f"must contain only printable Latin-1 characters; the value of {name} has others")
    adds = action.startswith("add")
    if action.endswith("Date"):
        if not _MILLISECONDS.fullmatch(values[0]):
            raise ResponseHeadersError(f"must have milliseconds as values of {action}; {values[0]!r} is not a number")
        return HeaderRule(name=name, adds=adds, date_in_ms=int(values[0]))
    return HeaderRule(name=name, value=values[0], adds=adds)
