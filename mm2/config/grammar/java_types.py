"""Java's configuration types (ConfigDef), as annotations of pydantic fields.

Each parses the text of the file as Java does (ConfigDef.parseType): surrounding whitespace is trimmed; whole numbers
have Java's ranges; a list is split at commas, an empty text is an empty list, empty elements are kept. A rejected value
raises the error of `refuse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError


@dataclass(frozen=True, slots=True)
class JavaType:
    """Name of the type in Kafka's documentation."""

    name: str


def refuse(rule: str, fix: str = "") -> PydanticCustomError:
    """Return the error that a parser raises: ``rule`` reads well after ``key = value: ``, such as "must be true or
    false"; an empty ``fix`` leaves it to `mm2.config.keys.declaration`."""
    return PydanticCustomError("rule", "{rule}", {"rule": rule, "fix": fix})


def read_boolean(value: object) -> bool:
    """Parse true or false in any case, with whitespace around it."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise refuse("must be true or false")
    return text == "true"


def read_list(value: object) -> tuple[str, ...]:
    """Return the elements between commas; none for an empty text."""
    text = str(value).strip()
    return tuple(re.split(r"\s*,\s*", text)) if text else ()


def _read_string(value: object) -> str:
    return str(value).strip()


def _whole_number(java_type: str, bits: int) -> Callable[[object], int]:
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def read(value: object) -> int:
        text = str(value).strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,30}", text):
            raise refuse("must be a whole number")
        number = int(text)
        if not lowest <= number <= highest:
            raise refuse(f"must be a whole number from {lowest} to {highest} (Java's {java_type})")
        return number

    return read


_read_int = _whole_number("int", 32)
_read_long = _whole_number("long", 64)


_DOUBLE = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:e[+-]?[0-9]{1,3})?[df]?", re.IGNORECASE)


def _read_double(value: object) -> float:
    text = str(value).strip()
    if not _DOUBLE.fullmatch(text):
        raise refuse("must be a number")
    return float(text.rstrip("dDfF"))


Boolean = Annotated[bool, JavaType("BOOLEAN"), BeforeValidator(read_boolean)]
String = Annotated[str, JavaType("STRING"), BeforeValidator(_read_string)]
ClassName = Annotated[str, JavaType("CLASS"), BeforeValidator(_read_string)]
Elements = Annotated[tuple[str, ...], JavaType("STRING"), BeforeValidator(read_list)]
"""Declared as STRING by Java, and split at commas where Java uses it."""
ListOf = Annotated[tuple[str, ...], JavaType("LIST"), BeforeValidator(read_list)]
Short = Annotated[int, JavaType("SHORT"), BeforeValidator(_whole_number("short", 16))]
Int = Annotated[int, JavaType("INT"), BeforeValidator(_read_int)]
Long = Annotated[int, JavaType("LONG"), BeforeValidator(_read_long)]
Double = Annotated[float, JavaType("DOUBLE"), BeforeValidator(_read_double)]

OptionalString = Annotated[str | None, JavaType("STRING"), BeforeValidator(_read_string)]
OptionalInt = Annotated[int | None, JavaType("INT"), BeforeValidator(_read_int)]
OptionalLong = Annotated[int | None, JavaType("LONG"), BeforeValidator(_read_long)]
OptionalList = Annotated[tuple[str, ...] | None, JavaType("LIST"), BeforeValidator(read_list)]


def require(accepts: Callable[[Any], object], rule: str, fix: str = "") -> AfterValidator:
    """Require that ``accepts`` is true for the typed value; otherwise raise the error of `refuse`."""

    def check(value: object) -> object:
        if not accepts(value):
            raise refuse(rule, fix)
        return value

    return AfterValidator(check)


def at_least(lowest: int, consequence: str = "") -> AfterValidator:
    """Require a number of at least ``lowest``; ``consequence``: what a smaller number would lead to."""
    return require(
        lambda number: number >= lowest, f"must be at least {lowest}" + (f": {consequence}" if consequence else "")
    )


def between(lowest: float, highest: float) -> AfterValidator:
    """Require a number within two bounds."""
    return require(lambda number: lowest <= number <= highest, f"must be from {lowest} to {highest}")


def one_of(*allowed: str, ignore_case: bool = False, fix: str = "") -> AfterValidator:
    """Require one of ``allowed``; with ``ignore_case`` the value becomes the spelling in ``allowed``."""
    words = {word.lower() if ignore_case else word: word for word in allowed}

    def check(text: str) -> str:
        word = words.get(text.lower() if ignore_case else text)
        if word is None:
            raise refuse(f"must be {one_of_words(tuple(word or 'empty' for word in allowed))}", fix)
        return word

    return AfterValidator(check)


def one_of_words(words: tuple[str, ...]) -> str:
    """Return ``a``, ``a or b`` or ``a, b or c``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


_FOR_NEW_TOPIC = require(
    lambda number: number == -1 or number >= 1,
    "must be -1 (broker default) or at least 1",
)

ReplicationFactorShort = Annotated[Short, _FOR_NEW_TOPIC]
ReplicationFactorInt = Annotated[Int, _FOR_NEW_TOPIC]
PartitionCount = Annotated[Int, _FOR_NEW_TOPIC]
IntervalSeconds = Annotated[
    Long,
    require(lambda seconds: seconds != 0, "must be greater than 0, or negative to disable"),
]
"""Seconds between two runs; a negative number disables them, as in Java."""
PartOfTopicName = Annotated[
    String,
    require(
        re.compile("[A-Za-z0-9._-]*").fullmatch,
        "must contain only letters, digits, dots, underscores and hyphens, like topic names",
    ),
]
"""Can be empty."""
