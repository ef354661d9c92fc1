"""Java's configuration types (ConfigDef), as annotations of pydantic fields.

Each reads the text of the file as Java does: blanks around it are dropped; whole numbers have Java's ranges; a list is
parted at commas, an empty text is an empty list, empty elements stay (mm2-compat §1.1). What a reader refuses it says
in our words: "must be …", to be followed by what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

_TOPIC_SIGNS = re.compile("[A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class JavaType:
    """The type's name in Kafka's documentation."""

    name: str


def refuse(rule: str) -> PydanticCustomError:
    """The error a reader raises: ``rule`` is a sentence without its end, "must be true or false"."""
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def read_boolean(value: object) -> bool:
    """True or false in any case, blanks around it allowed; nothing else."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise refuse("must be true or false")
    return text == "true"


def read_list(value: object) -> tuple[str, ...]:
    """The elements between commas; no element at all from an empty text."""
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

Boolean = Annotated[bool, JavaType("BOOLEAN"), BeforeValidator(read_boolean)]
String = Annotated[str, JavaType("STRING"), BeforeValidator(_read_string)]
ClassName = Annotated[str, JavaType("CLASS"), BeforeValidator(_read_string)]
Elements = Annotated[tuple[str, ...], JavaType("STRING"), BeforeValidator(read_list)]
"""What Java declares as one text, and parts at commas where it uses it."""
ListOf = Annotated[tuple[str, ...], JavaType("LIST"), BeforeValidator(read_list)]
Short = Annotated[int, JavaType("SHORT"), BeforeValidator(_whole_number("short", 16))]
Int = Annotated[int, JavaType("INT"), BeforeValidator(_read_int)]
Long = Annotated[int, JavaType("LONG"), BeforeValidator(_whole_number("long", 64))]

OptionalString = Annotated[str | None, JavaType("STRING"), BeforeValidator(_read_string)]
OptionalInt = Annotated[int | None, JavaType("INT"), BeforeValidator(_read_int)]
OptionalList = Annotated[tuple[str, ...] | None, JavaType("LIST"), BeforeValidator(read_list)]


def at_least(lowest: int, consequence: str = "") -> AfterValidator:
    """A number's lower bound, and what would happen below it."""

    def check(number: int) -> int:
        if number < lowest:
            raise refuse(f"must be at least {lowest}" + (f": {consequence}" if consequence else ""))
        return number

    return AfterValidator(check)


def between(lowest: int, highest: int) -> AfterValidator:
    """Both bounds of a number."""

    def check(number: int) -> int:
        if not lowest <= number <= highest:
            raise refuse(f"must be from {lowest} to {highest}")
        return number

    return AfterValidator(check)


def one_of(*allowed: str, ignore_case: bool = False) -> AfterValidator:
    """A closed set of words; ``ignore_case`` gives back the word as it stands in ``allowed``."""
    words = {word.lower() if ignore_case else word: word for word in allowed}

    def check(text: str) -> str:
        word = words.get(text.lower() if ignore_case else text)
        if word is None:
            raise refuse(f"must be {one_of_words(tuple(word or 'nothing' for word in allowed))}")
        return word

    return AfterValidator(check)


def one_of_words(words: tuple[str, ...]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _for_a_new_topic(number: int) -> int:
    if number != -1 and number < 1:
        raise refuse("must be at least 1, or -1 for the target broker's default: no broker creates such a topic")
    return number


def _interval(seconds: int) -> int:
    if seconds == 0:
        raise refuse("must not be 0: there is no pause between two rounds then. A negative number switches it off")
    return seconds


def _in_topic_names(text: str) -> str:
    if not _TOPIC_SIGNS.fullmatch(text):
        raise refuse("must be of letters, digits and . _ - only: Kafka allows no other signs in the names of topics")
    return text


ReplicationFactorShort = Annotated[Short, AfterValidator(_for_a_new_topic)]
ReplicationFactorInt = Annotated[Int, AfterValidator(_for_a_new_topic)]
PartitionCount = Annotated[Int, AfterValidator(_for_a_new_topic)]
IntervalSeconds = Annotated[Long, AfterValidator(_interval)]
"""Seconds between two rounds; negative: never, as in Java."""
PartOfTopicName = Annotated[String, AfterValidator(_in_topic_names)]
"""May be empty."""
