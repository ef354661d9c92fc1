"""Resource patterns of ACLs: those that cover the names which a flow selects, and their remote topics.

An ACL has a literal name, a prefix, or ``*`` for all names, but the keys ``topics`` and ``groups`` contain regular
expressions. Where an expression has no equivalent, the pattern is wider: the longest prefix of all its names, or ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mm2.core.plugins import PluginError
from mm2.core.policies import ReplicationPolicy
from mm2.core.topics.acls import PatternType

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PREFIX = re.compile(r"(?:[A-Za-z0-9_-]|\\[^A-Za-z0-9])(?![?*{])")
_SAMPLE = "x"  # any character of a topic name


@dataclass(frozen=True, slots=True, order=True)
class AclPattern:
    """``name`` as an ACL has it; ``pattern_type`` LITERAL with the name ``*``: all resources of the type."""

    name: str
    pattern_type: PatternType = PatternType.LITERAL

    @property
    def is_everything(self) -> bool:
        """Whether it covers all names."""
        return self == EVERYTHING

    def covers(self, other: AclPattern) -> bool:
        """Return whether each name of ``other`` is one of this pattern."""
        if self.pattern_type is PatternType.PREFIXED:
            return not other.is_everything and other.name.startswith(self.name)
        return self.is_everything or self == other


EVERYTHING = AclPattern("*")


def patterns_of(elements: Iterable[str]) -> tuple[AclPattern, ...]:
    """Return the patterns for a list of names and Java regular expressions, such as the value of ``topics``.

    ``orders`` and ``orders.eu`` are names, ``orders-.*`` becomes the prefix ``orders-``, and ``.*`` all names. A list
    with a group or a set that commas split, such as ``(a,b)``, becomes all names.
    """
    elements = tuple(elements)
    if any(element.count("(") != element.count(")") for element in elements):
        return (EVERYTHING,)
    return minimal(_pattern(part) for element in elements for part in _alternatives(element))


def minimal(patterns: Iterable[AclPattern]) -> tuple[AclPattern, ...]:
    """Return the patterns without those that another one covers, in their order."""
    found = tuple(dict.fromkeys(patterns))
    return tuple(one for one in found if not any(other.covers(one) for other in found if other != one))


def remote_pattern(pattern: AclPattern, policy: ReplicationPolicy, source_alias: str) -> AclPattern:
    """Return the pattern of the remote topics of the topics of ``pattern``.

    It is `EVERYTHING` if the policy does not keep what follows a prefix, or cannot name the topics.
    """
    prefix = "" if pattern.is_everything else pattern.name
    try:
        remote = policy.format_remote_topic(source_alias, prefix or _SAMPLE)
        longer = policy.format_remote_topic(source_alias, prefix + _SAMPLE)
    except PluginError:
        return EVERYTHING
    if pattern.pattern_type is PatternType.LITERAL and prefix:
        return AclPattern(remote)
    kept = longer.removesuffix(_SAMPLE)
    if not kept or kept + _SAMPLE != longer or (prefix and kept != remote):
        return EVERYTHING
    return AclPattern(kept, PatternType.PREFIXED)


def _alternatives(element: str) -> list[str]:
    """Return the alternatives of an expression without groups and sets; otherwise the expression itself."""
    return [element] if re.search(r"[(\[\\]", element) else element.split("|")


def _pattern(expression: str) -> AclPattern:
    if _NAME.fullmatch(expression):
        return AclPattern(expression)
    if "|" in expression:
        return EVERYTHING
    prefix, at = "", 0
    while found := _PREFIX.match(expression, at):
        prefix, at = prefix + found[0][-1], found.end()
    if at == len(expression) > 0:
        return AclPattern(prefix)
    return AclPattern(prefix, PatternType.PREFIXED) if prefix else EVERYTHING
