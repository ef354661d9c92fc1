"""JSON that others wrote: records, metadata of group members, znodes, HTTP bodies."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from mm2.core.wire.formats import FormatError

_DEEPEST = 64  # levels of arrays and objects; our messages have six, Java's records four
_LONGEST_INT = len(str(-(2**63)))  # characters
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NO_BRACKETS = re.compile(r"[^\[{\]}]+")
_PART = 1 << 16  # characters that are examined at a time


def decode_json(raw: bytes | bytearray | None, what: str, *, surrogates: bool = False) -> Any:
    """Return the value of UTF-8 JSON. ``what`` names the message in the error.

    Raises FormatError for anything else, and for JSON that would fail later: more than 64 levels (RecursionError when
    it is decoded, printed or encoded), integers of more than 64 bits, NaN, infinite numbers, and half surrogate pairs,
    which UTF-8 cannot encode, unless ``surrogates``: Jackson writes them.
    """
    if raw is None:
        raise FormatError(f"cannot read {what}: it is null")
    try:
        text = raw.decode()
        if text.count("[") + text.count("{") > _DEEPEST and _is_deep(text):
            raise ValueError(f"more than {_DEEPEST} levels")  # noqa: TRY301 - the error is completed below
        value = json.loads(text, parse_int=_int, parse_float=_float, parse_constant=_constant)
        if not surrogates and _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        raise FormatError(f"cannot read {what}: {error}: {bytes(raw[:200])!r:.200}") from None
    return value


def as_int(value: object) -> int:
    """Return ``value`` if it is an integer of `decode_json`. Raises TypeError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.200} is not an integer")
    return value


def _is_deep(text: str) -> bool:
    """Return whether there are too many levels, without those within strings.

    Takes a few times the memory of the text at most, whatever it is.
    """
    text = text.replace("\\\\", "").replace('\\"', "")
    level = in_string = 0
    for at in range(0, len(text), _PART):
        parts = text[at : at + _PART].split('"')
        for bracket in _NO_BRACKETS.sub("", "".join(parts[in_string::2])):
            level += 1 if bracket in "[{" else -1
            if level > _DEEPEST:
                return True
        in_string ^= len(parts) - 1 & 1
    return False


def _int(text: str) -> int:
    if len(text) > _LONGEST_INT or not -(2**63) <= (value := int(text)) < 2**63:
        raise ValueError(f"{text:.30} has more than 64 bits")
    return value


def _float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text:.30} is too large")
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
