r"""Characters and character classes of Java regular expressions: ``\x41``, ``\d``, ``\p{Alpha}``."""

from __future__ import annotations

from string import ascii_letters

import regex

POINT = (
    r"(?:[^\\]|\\(?:[tnrfae]|0(?:[0-3][0-7]{2}|[0-7]{1,2})|u[0-9a-fA-F]{4}|x(?:[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\})|c."
    r"|[^a-zA-Z0-9]))"
)
"""A character or its escape."""

NAMED_CLASS = r"(?:\\(?P<named_class>[dDwWsShHvV]|[pP](?:\{[^}]*\}|.)))"

_HORIZONTAL = r"\ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0b\x0c\r\x85\u2028\u2029"
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r"\ \t\n\x0b\x0c\r", "h": _HORIZONTAL, "v": _VERTICAL}
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
"""Java's names of Unicode properties."""
_PROPERTY = regex.compile(
    "[A-Z][a-z]?|[A-Z][a-z]+(_[A-Z][a-z]+)?|I[sn][A-Z][A-Za-z_ -]+|[a-z_]+=[A-Za-z_ -]+",
)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


class JavaRegexError(ValueError):
    """A pattern that Java rejects, or that cannot have the same meaning here.

    The message is a rule that completes "the pattern …"; ``fix`` is what to write instead.
    """

    def __init__(self, rule: str, fix: str = "correct the regular expression") -> None:
        super().__init__(rule)
        self.fix = fix


def invalid(reason: str, fix: str = "correct the regular expression") -> JavaRegexError:
    """Return the error for a pattern that Java rejects too."""
    return JavaRegexError(f"is not a valid Java regular expression: {reason}", fix)


def unsupported(reason: str, fix: str = "use another regular expression") -> JavaRegexError:
    """Return the error for a pattern that has no equivalent here."""
    return JavaRegexError(f"is not supported: {reason}", fix)


def code_point(text: str) -> str:
    """Return the character that ``text``, a `POINT`, denotes. Raises JavaRegexError."""
    kind, number = text[1:2], text[2:].strip("{}")
    if len(text) == 1:
        return text
    if kind == "c":
        return chr(ord(number) ^ 64)
    if kind not in ("0", "u", "x"):
        return _ESCAPED.get(kind, kind)
    try:
        return chr(int(number, 8 if kind == "0" else 16))
    except (ValueError, OverflowError) as error:
        raise invalid(f"{text} is not the code of a character") from error


def literal(char: str) -> str:
    """Return ``char``, escaped if it has a special meaning inside or outside of a set."""
    return char if char.isalnum() or char == "_" or not char.isascii() else f"\\x{ord(char):02x}"


def cases(char: str, ignores_case: bool) -> str:
    """Return ``char`` as members of a set: both cases of an ASCII letter if case is ignored."""
    return char.lower() + char.upper() if ignores_case and char in ascii_letters else literal(char)


def char_range(first: str, last: str, ignores_case: bool) -> str:
    """Return ``first-last`` as members of a set. Raises JavaRegexError."""
    if last < first:
        raise invalid(f"range {first}-{last} is in reverse order", f"write {last}-{first}")
    others = [letter for letter in ascii_letters if ignores_case and first <= letter.swapcase() <= last]
    return f"{literal(first)}-{literal(last)}{''.join(others)}"


def named_class(name: str, ignores_case: bool) -> str:
    r"""Return ``\d``, ``\W``, ``\p{…}`` and so on as members of a set; ``name`` has no backslash.

    Raises JavaRegexError.
    """
    if name[0] not in "pP":
        members = _CLASSES[name.lower()]
        return members if name.islower() else f"[^{members}]"
    negated, name = name[0] == "P", name[1:].removeprefix("{").removesuffix("}")
    if name in _ASCII_PROPERTIES:
        members = _ASCII_PROPERTIES["Alpha" if ignores_case and name in ("Lower", "Upper") else name]
        return f"[^{members}]" if negated else f"[{members}]"
    known = _UNICODE_PROPERTIES.get(name, name)
    depends_on_release = ignores_case and known in ("Lu", "Ll", "Lt")  # versions of Java differ
    if regex.fullmatch("Is[A-Z][a-z]?", known):
        known = known[2:]
    member = f"\\{'P' if negated else 'p'}{{{known}}}"
    try:
        if _PROPERTY.fullmatch(known) and not depends_on_release:
            regex.compile(f"[{member}]", regex.V1)
            return member
    except regex.error:
        pass
    raise unsupported(f"character class \\p{{{name}}}", "list the characters, such as [A-Za-z]")
