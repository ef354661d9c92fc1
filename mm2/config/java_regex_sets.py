r"""The signs and sets of Java's regular expressions: ``[a-z&&[^x]]``, ``\p{…}``, ``\x41``, ``\d``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from string import ascii_letters

import regex


class JavaRegexError(ValueError):
    """A pattern that Java refuses, or that cannot mean the same here. The message completes "the pattern …"."""


DEEPEST = 50
"""Each level takes four calls of ours; Python allows a thousand."""


class PatternText:
    """The pattern and how far it is read."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.depth = 0

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.pattern)

    def peek(self) -> str:
        return self.pattern[self.position]

    def next_is(self, text: str) -> bool:
        return self.pattern.startswith(text, self.position)

    def next_is_digit(self) -> bool:
        return not self.at_end and self.peek() in "0123456789"

    def take(self) -> str:
        if self.at_end:
            raise JavaRegexError("is no Java regular expression: it ends too early")
        self.position += 1
        return self.pattern[self.position - 1]

    def take_if(self, text: str) -> bool:
        if not self.next_is(text):
            return False
        self.position += len(text)
        return True

    def take_until(self, end: str) -> str:
        found = self.pattern.find(end, self.position)
        if found < 0:
            raise JavaRegexError(f"is no Java regular expression: {end} is missing")
        taken = self.pattern[self.position : found]
        self.position = found + len(end)
        return taken

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A group or a set is read inside. Raises JavaRegexError where that is deeper than anybody writes by hand."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise JavaRegexError(f"cannot be honoured: groups and sets may stand {DEEPEST} deep in each other")
        yield
        self.depth -= 1

    def take_number(self, digits: str, base: int) -> int:
        match = regex.compile(digits).match(self.pattern, self.position)
        if match is None:
            raise JavaRegexError("is no Java regular expression: the number of a character is malformed")
        self.position = match.end()
        return int(match[0], base)


_HORIZONTAL = r"\ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0b\x0c\r\x85\u2028\u2029"
_SETS = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r"\ \t\n\x0b\x0c\r", "h": _HORIZONTAL, "v": _VERTICAL}

_ASCII_PROPERTIES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": r"\x20-~",
    "Blank": r"\ \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r"\ \t\n\x0b\x0c\r",
}

_CASED_PROPERTIES = frozenset({"Lower", "Upper"})
_CATEGORIES = frozenset({"Lu", "Ll", "Lt"})
_UNICODE_PROPERTIES = {
    "IsAlphabetic": "Alphabetic",
    "IsControl": "Cc",
    "IsDigit": "Nd",
    "IsIdeographic": "Ideographic",
    "IsLetter": "L",
    "IsLowercase": "Lowercase",
    "IsPunctuation": "P",
    "IsUppercase": "Uppercase",
    "IsWhite_Space": "White_Space",
}
"""Java's names of what Unicode calls so."""

_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


def literal(char: str) -> str:
    """``char`` so that it means itself, in a set and outside of one."""
    return char if char.isalnum() or char == "_" or not char.isascii() else f"\\x{ord(char):02x}"


def cases(char: str, ignores_case: bool) -> str:
    """``char`` as members of a set; both cases of an ASCII letter where case is ignored."""
    is_letter = char.isascii() and char.isalpha()
    return char.lower() + char.upper() if ignores_case and is_letter else literal(char)


def unsupported_escape(char: str) -> JavaRegexError:
    r"""What to raise for ``\`` and a letter that means nothing, or nothing here."""
    return JavaRegexError(f"cannot be honoured: \\{char} has no equal here, or none in Java")


def code_point(text: PatternText, char: str) -> str | None:
    r"""The character that ``\`` and ``char`` stand for, None when they are no character."""
    if char in _SIGNS:
        return _SIGNS[char]
    readers: dict[str, Callable[[], int]] = {
        "0": lambda: text.take_number("[0-3][0-7]{2}|[0-7]{1,2}", 8),
        "u": lambda: text.take_number("[0-9a-fA-F]{4}", 16),
        "x": lambda: _hexadecimal(text),
        "c": lambda: ord(text.take()) ^ 64,
    }
    if char in readers:
        return chr(readers[char]())
    return None if char.isascii() and char.isalnum() else char


def _hexadecimal(text: PatternText) -> int:
    if not text.take_if("{"):
        return text.take_number("[0-9a-fA-F]{2}", 16)
    number = text.take_number("[0-9a-fA-F]+", 16)
    if not text.take_if("}") or number > 0x10FFFF:
        raise JavaRegexError("is no Java regular expression: the number of a character is malformed")
    return number


def named_set(text: PatternText, letter: str, ignores_case: bool) -> str:
    r"""The members of ``\d``, ``\W``, ``\p{…}`` and so on, to stand in a set; ``letter`` is read already."""
    if letter in "pP":
        return _property(text, ignores_case, negated=letter == "P")
    if letter.lower() not in _SETS:
        raise unsupported_escape(letter)
    members = _SETS[letter.lower()]
    return members if letter.islower() else f"[^{members}]"


def _property(text: PatternText, ignores_case: bool, *, negated: bool) -> str:
    r"""What follows ``\p``. ASCII names are Java's, others Unicode's."""
    name = text.take_until("}") if text.take_if("{") else text.take()
    if name in _ASCII_PROPERTIES:
        members = _ASCII_PROPERTIES["Alpha" if ignores_case and name in _CASED_PROPERTIES else name]
        return f"[^{members}]" if negated else f"[{members}]"
    refusal = JavaRegexError(f"cannot be honoured: \\p{{{name}}} has no equal here")
    known = _UNICODE_PROPERTIES.get(name, name)
    if ignores_case and known in _CATEGORIES:
        raise refusal  # versions of Java differ
    if regex.fullmatch("Is[A-Z][a-z]?", known):
        known = known[2:]
    if not regex.fullmatch("[A-Z][a-z]?|[A-Z][a-z]+(_[A-Z][a-z]+)?|I[sn][A-Z][A-Za-z_ -]+|[a-z_]+=[A-Za-z_ -]+", known):
        raise refusal
    member = f"\\{'P' if negated else 'p'}{{{known}}}"
    try:
        regex.compile(f"[{member}]", regex.V1)
    except regex.error as error:
        raise refusal from error
    return member


def read_set(text: PatternText, ignores_case: bool) -> str:
    """A set after its ``[``: members, nested sets, ``&&`` between them; ``^`` negates the whole."""
    negated = text.take_if("^")
    parts = [_members(text, ignores_case, first=True)]
    while text.take_if("&&"):
        parts.append(_operand(text, ignores_case))
    if not text.take_if("]"):
        raise JavaRegexError("is no Java regular expression: a [ has no ] after it")
    body = parts[0] if len(parts) == 1 else "&&".join(f"[{part}]" for part in parts)
    return f"[{'^' if negated else ''}{body}]"


def _members(text: PatternText, ignores_case: bool, *, first: bool) -> str:
    """Members up to ``]`` or ``&&``. A ``]`` in first place is a member."""
    out: list[str] = []
    while not text.at_end and not text.next_is("&&") and (not text.next_is("]") or (first and not out)):
        if text.take_if("["):
            with text.nested():
                out.append(read_set(text, ignores_case))
        else:
            out.append(_member(text, ignores_case))
    if not out:
        raise JavaRegexError("cannot be honoured: a set or a side of && is empty")
    return "".join(out)


def _operand(text: PatternText, ignores_case: bool) -> str:
    """What stands after ``&&``: either sets in brackets or members. Java forgets sets that members follow, so that
    ``[a-z&&[b]c]`` is ``[a-z&&c]``, and reads a third ``&`` in a way of its own."""
    start = text.position
    if text.next_is("&"):
        raise JavaRegexError("cannot be honoured: &&& is read by Java in a way of its own")
    members = _members(text, ignores_case, first=False)
    if text.pattern[start] == "[" and not _only_sets(text.pattern[start : text.position], ignores_case):
        raise JavaRegexError("cannot be honoured: after && Java takes sets in brackets or members, not both")
    return members


def _only_sets(operand: str, ignores_case: bool) -> bool:
    text = PatternText(operand)
    while not text.at_end:
        if not text.take_if("["):
            return False
        read_set(text, ignores_case)
    return True


def _member(text: PatternText, ignores_case: bool) -> str:
    """A character, a range or a named set."""
    first = text.take()
    if first == "\\":
        letter = text.take()
        point = code_point(text, letter)
        if point is None:
            return named_set(text, letter, ignores_case)
        first = point
    if not text.next_is("-") or text.next_is("-]") or text.next_is("-["):
        return cases(first, ignores_case)
    text.take()
    return _range(first, _last_of_range(text), ignores_case)


def _last_of_range(text: PatternText) -> str:
    last = text.take()
    if last != "\\":
        return last
    point = code_point(text, text.take())
    if point is None:
        raise JavaRegexError("is no Java regular expression: a range must end with a character")
    return point


def _range(first: str, last: str, ignores_case: bool) -> str:
    if ord(last) < ord(first):
        raise JavaRegexError(f"is no Java regular expression: the range {first}-{last} runs backwards")
    members = f"{literal(first)}-{literal(last)}"
    if ignores_case:
        members += "".join(letter for letter in ascii_letters if first <= letter.swapcase() <= last)
    return members
