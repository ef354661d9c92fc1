r"""Java regular expressions, compiled with the `regex` package.

A pattern is parsed by Java's grammar (java.util.regex of Java 17) and translated, so that it has the same meaning here:
``.`` excludes Java's line terminators; ``\w``, ``\p{Alpha}`` and ``(?i)`` are limited to ASCII; ``\h`` is expanded;
``{e<=1}`` is not fuzzy matching; each round of a possessive repetition keeps what it has matched. Patterns that Java
rejects are rejected, and so are constructs without an equivalent: the flags d, m, u, U and x, ``\N{…}``, ``\G``,
``\R``, ``\X``, ``\b{g}``, properties of java.lang.Character, references to a group within that group, and in a
look-behind references and lazy or possessive repetitions.

Both engines backtrack, so ``(a|aa)+b`` takes exponential time for a name of many ``a``. Java's would then hang; here a
match has a limit of time (`JavaPattern`).
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import NamedTuple

import regex

from mm2.config.regex.java_characters import (
    NAMED_CLASS,
    POINT,
    JavaRegexError,
    cases,
    char_range,
    code_point,
    invalid,
    literal,
    named_class,
    unsupported,
)

_TOKEN = regex.compile(
    rf"""
    (?P<group>\((?:(?P<extension>\?)(?:(?P<kind>[:=!>]|<[=!])|<(?P<name>[^>]*)>
        |(?P<on>[a-zA-Z]*)(?P<off>(?:-[a-zA-Z]*)?)(?P<end>[:)]))?)?)
    |(?P<close>\))
    |(?P<or>\|)
    |(?P<quantifier>(?:[?*+]|\{{(?P<number>[0-9]+)(?:,(?P<number>[0-9]*))?\}})[?+]?)
    |(?P<brace>\{{)
    |(?P<set>\[\^?)
    |(?P<anchor>[.^$]|\\(?:[AZzB]|b(?!\{{g\}})))
    |\\k<(?P<named>[^>]*)>
    |\\(?P<reference>[1-9][0-9]*)
    |{NAMED_CLASS}
    |(?P<point>{POINT})
    """,
    regex.V1 | regex.VERBOSE | regex.DOTALL,
)
_MEMBER = regex.compile(
    rf"{NAMED_CLASS}|(?P<low>{POINT})(?:-(?![\]\[])(?P<high>{POINT}|\\.))?", regex.V1 | regex.DOTALL
)
_POINT = regex.compile(POINT, regex.DOTALL)

_PLAIN_NAME = regex.compile("[A-Za-z0-9._-]+")

_NOT_LINE_END = r"[^\n\r\x85\u2028\u2029]"
_AT_END = r"(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z)"
"""Where Java's $ and \\Z match: at the end, or before a final line terminator."""

_ANCHORS = {"^": r"\A", r"\A": r"\A", "$": _AT_END, r"\Z": _AT_END, r"\z": r"\Z", r"\b": r"\b", r"\B": r"\B"}

MOST_REPEATED = 1_000
"""Topic names have at most 249 characters, and `regex` allocates per repetition: {100000000} would take gigabytes."""

MOST_REPEATED_NESTED = 10_000
"""The same for repetitions in repetitions: `regex` expands ``(a{1000}){1000}``, which takes 0.3 GB."""

MATCHED_WITHIN_S = 0.05
"""Limit of one match, in seconds of CPU of its thread: ordinary patterns take a microsecond, and ``.*a.*b.*c.*`` 3 ms
for the worst name of 249 characters. Meanwhile the node's event loop waits, which renews leases of 14 s."""

INTERRUPTED = 20
"""How often a match is tried that was ended because other threads used up its time: `regex` counts the CPU of the whole
process."""

SLOW_S = 0.002
"""A match that took this long is remembered, so that its name costs the time once and not in each round."""

MOST_REMEMBERED = 10_000
"""Names of slow matches that one pattern remembers: about 3 MB. Others are matched again."""

DEEPEST = 50
"""Nesting limit of groups and sets; far more than hand-written patterns need."""


class SlowMatchError(Exception):
    """Whether the pattern matches is unknown, because that takes longer than the limit."""


class JavaPattern:
    """A compiled pattern, whose matches take at most ``within_s`` seconds of CPU."""

    def __init__(self, compiled: regex.Pattern[str], within_s: float = MATCHED_WITHIN_S) -> None:
        self._compiled = compiled
        self._within_s = within_s
        self._slow: dict[str, bool | None] = {}  # None: unknown

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole ``text``, as Java's Matcher.matches. Raises SlowMatchError."""
        matched = self._slow[text] if text in self._slow else self._match(text)
        if matched is None:
            raise SlowMatchError
        return matched

    def _match(self, text: str) -> bool | None:
        began = time.thread_time()
        matched: bool | None = None
        for _ in range(INTERRUPTED):
            try:
                matched = self._compiled.fullmatch(text, timeout=self._within_s, concurrent=False) is not None
                break
            except TimeoutError:
                if time.thread_time() - began >= self._within_s / 2:  # it was this match
                    break
        else:
            return None  # not remembered: nothing is known about it
        if time.thread_time() - began >= SLOW_S and len(self._slow) < MOST_REMEMBERED:
            self._slow[text] = matched
        return matched


@lru_cache(maxsize=256)  # every flow of a file compiles the same few lists
def compile_java(pattern: str, within_s: float = MATCHED_WITHIN_S) -> JavaPattern:
    """Compile ``pattern``, whose matches take at most ``within_s`` seconds. Raises JavaRegexError."""
    unquoted = regex.sub(r"(?s)\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.", _unquote, pattern)
    try:
        return JavaPattern(regex.compile(_Translator(unquoted).translate(), regex.V1), within_s)
    except regex.error as error:
        raise invalid(str(error)) from error


def _unquote(match: regex.Match[str]) -> str:
    r"""Escape the characters that ``\Q…\E`` quotes; without ``\E`` it quotes the rest."""
    quoted = match["quoted"]
    return match[0] if quoted is None else "".join(char if char.isalnum() else f"\\{char}" for char in quoted)


class _OpenGroup(NamedTuple):
    """A group that is not closed yet."""

    start: int
    number: int | None
    name: str | None
    kind: str | None


class _Translator:
    """Translates one pattern in a single pass.

    ``flags``: the active ones of i and s. ``outer``: the flags to restore at the end of each open group.
    ``repeatable``: whether a quantifier can follow. ``copies``: how often `regex` expands the expression that a
    quantifier would repeat, and ``most_copies`` the same of the costliest one in each open group, the pattern being
    the first. ``out``: the translated pieces. ``starts``: for each open group, its first piece, its number (None: it
    captures nothing) and its kind. ``group_start``: the first piece of the group that the last piece closes.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.flags = ""
        self.outer: list[str] = []
        self.names: set[str] = set()
        self.groups = 0
        self.repeatable = False
        self.copies = 1
        self.most_copies = [1]
        self.out: list[str] = []
        self.starts: list[_OpenGroup] = []
        self.group_start: int | None = None

    @property
    def ignores_case(self) -> bool:
        return "i" in self.flags

    def translate(self) -> str:
        while self.position < len(self.pattern):
            self.out.append(self._piece(self._take(_TOKEN)))
        if self.outer:
            raise invalid("unterminated group", "add the missing ), or write \\\\( to match a parenthesis")
        return "".join(self.out)

    def _take(self, token: regex.Pattern[str]) -> regex.Match[str]:
        match = token.match(self.pattern, self.position)
        if match is None:
            char = self.pattern[self.position + 1 : self.position + 2]
            raise unsupported(f"\\{char}") if char else invalid("it ends with a single backslash")
        self.position = match.end()
        return match

    def _piece(self, match: regex.Match[str]) -> str:
        if match["quantifier"] or match["brace"]:
            return self._quantifier(match)
        self.repeatable = not (match["or"] or match["group"])
        self.copies = 1
        self.group_start = None
        if match["group"]:
            return self._group(match)
        if match["close"]:
            if not self.outer:
                raise invalid("unmatched )", "add the missing (, or write \\\\) to match a parenthesis")
            self.flags = self.outer.pop()
            self.group_start = self.starts.pop().start
            self.copies = self.most_copies.pop()
            self.most_copies[-1] = max(self.most_copies[-1], self.copies)
        return match[0] if match["close"] or match["or"] else self._atom(match)

    def _atom(self, match: regex.Match[str]) -> str:
        if match["set"]:
            return self._set(match["set"], 1)
        if match["anchor"]:
            return _ANCHORS.get(match["anchor"]) or ("(?s:.)" if "s" in self.flags else _NOT_LINE_END)
        if match["named"] is not None or match["reference"]:
            return self._reference(match)
        if match["named_class"]:
            return f"[{named_class(match['named_class'], self.ignores_case)}]"
        char = code_point(match["point"])
        both = cases(char, self.ignores_case)
        return both if both == literal(char) else f"[{both}]"

    def _quantifier(self, match: regex.Match[str]) -> str:
        if not self.repeatable or match["brace"]:
            raise self._misplaced(match)
        if any(len(number) > 4 or int(number or 0) > MOST_REPEATED for number in match.captures("number")):
            raise unsupported(
                f"a repetition of more than {MOST_REPEATED} exceeds the longest topic name",
                "use a smaller number, or *",
            )
        self.copies *= max((int(number) for number in match.captures("number") if number), default=1) or 1
        if self.copies > MOST_REPEATED_NESTED:
            raise unsupported(
                f"repetitions in repetitions of more than {MOST_REPEATED_NESTED:,} in all", "use smaller numbers, or *"
            )
        self.most_copies[-1] = max(self.most_copies[-1], self.copies)
        self.repeatable = False
        if len(match[0]) > 1 and match[0][-1] in "?+":
            self._check_no_look_behind("a lazy or possessive repetition")
        if self.group_start is not None and len(match[0]) > 1 and match[0].endswith("+"):
            self.out[self.group_start] = f"(?>{self.out[self.group_start]}"  # (a|ab){2}+ does not match aba in Java
            return f"){match[0]}"
        return match[0]

    def _misplaced(self, match: regex.Match[str]) -> JavaRegexError:
        quantifier = match[0][0]
        if quantifier == "{":
            return unsupported(
                "{ must follow an expression and contain numbers; commas separate the list, so {1,3} would be split",
                "repeat the expression without a comma, such as aa?a? for a{1,3}",
            )
        rest = self.pattern[match.end() :]
        if match[0] == "*" and match.start() == 0 and _PLAIN_NAME.fullmatch(rest):  # a shell's pattern, such as *.log
            escaped = rest.replace(".", r"\\.")
            return invalid("nothing to repeat before *", f"write .*{escaped}")
        return invalid(f"nothing to repeat before {quantifier}", f"write .{quantifier} to repeat any character")

    def _group(self, match: regex.Match[str]) -> str:
        kind, name = match["kind"], match["name"]
        outer = self.flags
        if match["end"]:
            if strange := sorted(set(match["on"] + match["off"]) - {"i", "s", "-"}):
                raise unsupported(f"flag {strange[0]}", f"remove the flag {strange[0]}; i and s can be used")
            self.flags = "".join(flag for flag in "is" if flag in outer + match["on"] and flag not in match["off"])
            if match["end"] == ")":
                return ""
            kind = ":"
        elif name is not None:
            if not regex.fullmatch("[a-zA-Z][a-zA-Z0-9]*", name) or name in self.names:
                raise invalid(f"{name!r} is a duplicate or malformed group name", "rename the group")
            self.names.add(name)
        elif kind is None and match["extension"]:
            raise invalid("unknown construct after (?", "write \\\\( to match a parenthesis")
        self.outer.append(outer)
        captures = kind is None
        self.starts.append(_OpenGroup(len(self.out), self.groups + 1 if captures else None, name, kind))
        self.most_copies.append(1)
        self._check_depth(0)
        if kind is not None:
            return f"(?{kind}"
        self.groups += 1
        return "(" if name is None else f"(?P<{name}>"

    def _check_depth(self, sets: int) -> None:
        if len(self.outer) + sets > DEEPEST:
            raise unsupported(f"groups and sets nested more than {DEEPEST} deep", "simplify the regular expression")

    def _reference(self, match: regex.Match[str]) -> str:
        flag, name, digits = "i" if self.ignores_case else "", match["named"], match["reference"]
        self._check_no_look_behind("a reference to a group")
        if name is not None:
            if name not in self.names:
                raise invalid(f"undefined group {name!r}", "refer to an earlier group")
            self._check_closed(any(group.name == name for group in self.starts), name)
            return f"(?{flag}:(?P={name}))"
        while len(digits) > 1 and int(digits) > self.groups:  # Java reads such a digit as a literal
            digits = digits[:-1]
        if int(digits) > self.groups:
            raise unsupported(f"undefined group {digits}", "refer to an earlier group")
        self._check_closed(any(group.number == int(digits) for group in self.starts), digits)
        self.position = match.start("reference") + len(digits)
        return rf"(?{flag}:\g<{digits}>)"

    def _check_closed(self, is_open: bool, group: str) -> None:
        if is_open:  # after an empty round of a repetition, Java ends it, and `regex` continues
            raise unsupported(f"a reference to group {group} within it", "refer to an earlier group")

    def _check_no_look_behind(self, what: str) -> None:
        if any(group.kind in ("<=", "<!") for group in self.starts):  # Java rejects some, and errs with others
            raise unsupported(f"{what} within a look-behind", "write the look-behind without it")

    def _set(self, opening: str, depth: int) -> str:
        """Translate a set after its ``[`` or ``[^``: members, nested sets, ``&&`` between them."""
        self._check_depth(depth)
        sides = [self._side(depth, first=True)]
        while self._take_if("&&"):
            sides.append(self._side(depth, first=False))
        if not self._take_if("]"):
            raise invalid("unterminated set", "add the missing ], or write \\\\[ to match a bracket")
        return f"{opening}{sides[0] if len(sides) == 1 else '&&'.join(f'[{side}]' for side in sides)}]"

    def _side(self, depth: int, *, first: bool) -> str:
        """Translate members up to ``]`` or ``&&``. A ``]`` at the start is a member.

        After ``&&`` only sets or only members are allowed, because Java ignores sets followed by members:
        ``[a-z&&[b]c]`` is ``[a-z&&c]``. A third ``&`` is not allowed, because it is ambiguous in Java.
        """
        out: list[str] = []
        sets_first, has_members = self._next_is("["), False
        if not first and self._next_is("&"):
            raise unsupported("&&& is ambiguous in Java", "write &&")
        while self.position < len(self.pattern) and not self._next_is("&&"):
            if self._next_is("]") and (out or not first):
                break
            if opening := self._take_if("[^") or self._take_if("["):
                out.append(self._set(opening, depth + 1))
            else:
                out.append(self._member())
                has_members = True
        if not out:
            raise unsupported("an empty set, or an empty side of &&", "add a character to the set")
        if not first and sets_first and has_members:
            raise unsupported("sets and single characters after &&: Java ignores the sets", "put all in one set")
        return "".join(out)

    def _member(self) -> str:
        """Translate a character, a range or a named class."""
        match = self._take(_MEMBER)
        if match["named_class"]:
            return named_class(match["named_class"], self.ignores_case)
        low, high = code_point(match["low"]), match["high"]
        if high is None:
            return cases(low, self.ignores_case)
        if not _POINT.fullmatch(high):
            raise invalid("a range must end with a character")
        return char_range(low, code_point(high), self.ignores_case)

    def _next_is(self, text: str) -> bool:
        return self.pattern.startswith(text, self.position)

    def _take_if(self, text: str) -> str:
        if not self._next_is(text):
            return ""
        self.position += len(text)
        return text
