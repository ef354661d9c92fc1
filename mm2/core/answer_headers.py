"""response.http.headers.config: headers that every answer of the REST interface carries (KIP-577, mm2-compat §1.2).

    rules    rule ("," rule)* [","]          a rule with a comma in it stands in double quotes, \\" being a quote in it
    rule     action blank name ":" value     the value without a colon, as in Java
    action   set | add                       in any case; the value is sent as it is
             setDate | addDate               in any case; the value is milliseconds from now, sent as a date

What an answer says by itself (Content-Type, Content-Length, …) wins over ``set`` and ``add``, as in Java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ACTIONS = ("set", "add", "setDate", "addDate")
_BY_LOWER_CASE = {action.lower(): action for action in _ACTIONS}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[ -~\x80-\xff]+")
"""What HTTP/1.1 can carry: no control characters, one byte each."""
_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)(?:"[^,]*)?(?:,|$)', re.DOTALL)
_BARE = re.compile(r"([^,]*)(?:,|$)")
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,13}")
"""Up to 317 years; a date needs no more, and Python's ends in the year 9999."""


class AnswerHeadersError(ValueError):
    """The rules cannot be read; the text says what they must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderRule:
    """``adds``: beside others of this name, else instead of them. ``value`` is empty where ``date_in_ms`` is given:
    the header is the date so many milliseconds after the answer."""

    name: str
    value: str = ""
    adds: bool = False
    date_in_ms: int | None = None


def read_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """In their order. Raises AnswerHeadersError."""
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
        raise AnswerHeadersError(f"must be rules such as set X-Frame-Options: DENY, parted by commas; {text!r} is none")
    action = _BY_LOWER_CASE.get(parts[0].lower())
    if action is None:
        raise AnswerHeadersError(f"must have rules that begin with {', '.join(_ACTIONS)}; {text.strip()!r} does not")
    name, *values = (part.strip() for part in parts[1].split(":"))
    if len(values) != 1 or not values[0]:
        raise AnswerHeadersError(
            f"must have rules with a name, one colon and a value, as in Java; {text.strip()!r} is not"
        )
    if not _TOKEN.fullmatch(name):
        raise AnswerHeadersError(f"must name headers; {name!r} cannot be one")
    if not _VALUE.fullmatch(values[0]):
        raise AnswerHeadersError(f"must have values of Latin letters and signs; that of {name} has others")
    adds = action.startswith("add")
    if action.endswith("Date"):
        if not _MILLISECONDS.fullmatch(values[0]):
            raise AnswerHeadersError(f"must have milliseconds from now behind {action}; {values[0]!r} is no number")
        return HeaderRule(name=name, adds=adds, date_in_ms=int(values[0]))
    return HeaderRule(name=name, value=values[0], adds=adds)
