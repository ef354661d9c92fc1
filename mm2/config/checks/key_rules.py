"""Rules about keys, and the remarks that they return, for `mm2.config.checks.key_scopes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

REMOVE = "remove the line"


class UnknownKeyError(Exception):
    """There is no such key at this place; ``candidates`` are the keys that there are."""

    def __init__(self, candidates: frozenset[str]) -> None:
        super().__init__()
        self.candidates = candidates


class Weight(Enum):
    """How a remark is reported: as an error, as a warning, or only by ``mm2 explain``."""

    ERROR = auto()
    WARNING = auto()
    NOTE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A rule about a key, and the fix. ``is_misplaced``: the key has an effect at another place."""

    rule: str
    fix: str
    weight: Weight = Weight.WARNING
    is_misplaced: bool = False


Judge = Callable[[str, str], Remark | None]
"""Returns the remark on a key by its name, without cluster or flow, and its value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Judges the keys to which it applies."""

    applies: Callable[[str], bool]
    judge: Judge


@dataclass(frozen=True, slots=True)
class KeyScope:
    """The rules of one place, the names to suggest instead of an unknown one, and the defaults of keys there.
    ``has_queries``: whether queries can be defined there."""

    rules: tuple[Rule, ...]
    candidates: frozenset[str]
    defaults: Mapping[str, str] = field(default_factory=dict)
    has_queries: bool = True

    def judge(self, name: str, text: str) -> Remark | None:
        """Return the remark on key ``name`` with the value ``text``. Raises UnknownKeyError."""
        for rule in self.rules:
            if rule.applies(name):
                return rule.judge(name, text)
        raise UnknownKeyError(self.candidates)


def named(names: Iterable[str]) -> Callable[[str], bool]:
    """Return a predicate for exactly ``names``."""
    return frozenset(names).__contains__


def beginning(*prefixes: str) -> Callable[[str], bool]:
    """Return a predicate for names with one of ``prefixes``."""
    return lambda name: name.startswith(prefixes)


def always(rule: str, fix: str, *, is_misplaced: bool = False) -> Judge:
    """Return the same remark for all keys of a rule; ``{name}`` in the fix is replaced by the key's name."""
    return lambda name, _text: Remark(rule=rule, fix=fix.replace("{name}", name), is_misplaced=is_misplaced)


def misplaced(names: Iterable[str], fix: str, level: str) -> Rule:
    """Return the rule for keys that have no effect at this ``level``, but have at the one that ``fix`` names."""
    return Rule(named(names), always(f"has no effect {level}, as in Java", fix, is_misplaced=True))


def ignored(reasons: Mapping[str, str]) -> Rule:
    """Return the rule for Java keys without effect here that are accepted silently, as the same file runs in Java."""
    return Rule(named(reasons), lambda name, _text: silent(reasons[name]))


def useless(names: Iterable[str], reasons: Mapping[str, str]) -> Rule:
    """Return the rule for keys that have an effect at no level, written where they have none in Java either."""
    return Rule(named(names), lambda name, _text: no_effect(reasons.get(name, "")))


def silent(reason: str) -> Remark:
    """Return the remark on a key without effect that only ``mm2 explain`` shows."""
    return Remark(rule=f"has no effect: {reason}", fix=REMOVE, weight=Weight.NOTE)


def no_effect(reason: str) -> Remark:
    """Return the warning about a key without effect."""
    return Remark(rule=f"has no effect: {reason}" if reason else "has no effect", fix=REMOVE)


def fine(_name: str, _text: str) -> None:
    """Return no remark."""
    return
