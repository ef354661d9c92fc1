"""Detection of flows that would copy topics in an endless loop, before they start.

The default policy detects a cycle from a topic's name, ``A.orders``. IdentityReplicationPolicy keeps names, so a copy
cannot be distinguished from an original: with A->B and B->A for the same topic, every record is copied endlessly. The
same applies to any cycle of flows in which no two consecutive flows rename topics: X->Y stops topics to which Y->Z has
added the prefix Y.

The check passes a topic name through the flows by their own rules. The names come from ``topics``; a regular expression
yields names if it is a literal name or a prefix, ``orders`` or ``orders.*``. The heartbeats topics are
passed through, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mm2.core.naming.names import Flow
from mm2.core.plugins import PluginError
from mm2.core.topics.replication_filter import ReplicationFilter

_NAME = re.compile(r"(?:[A-Za-z0-9_-]|\\?\.(?!\*)|\\-)*")
_BEGINNING = re.compile(rf"({_NAME.pattern})\.\*")
_ENDINGS = ("", "x", "-0")  # tried after a prefix, since topics.exclude can exclude one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFlow:
    """An enabled ``flow``, the ``rules`` it replicates by, and the elements of its ``topics``. For a user-defined
    filter the only element is its class, ``module:Class``, which yields no names."""

    flow: Flow
    rules: ReplicationFilter
    topics: tuple[str, ...]

    @property
    def aliases(self) -> Flow:
        return self.rules.aliases


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """``flows`` would copy ``topic`` endlessly. This is an error."""

    flows: tuple[Flow, ...]
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleLoop:
    """``flows`` form a cycle that cannot recognise copies, and the names that ``patterns`` select are unknown."""

    flows: tuple[Flow, ...]
    patterns: tuple[str, ...]


def find_loops(flows: Iterable[CheckedFlow]) -> tuple[Loop | PossibleLoop, ...]:
    """Return the loops of the enabled ``flows``, the shortest first.

    A flow that is part of one loop is not considered for longer ones: it has to change in any case.
    """
    leaving: defaultdict[str, list[CheckedFlow]] = defaultdict(list)
    for checked in sorted(flows, key=lambda checked: checked.flow):
        leaving[checked.flow.source].append(checked)
    found: list[Loop | PossibleLoop] = []
    named: set[Flow] = set()
    ways: list[tuple[CheckedFlow, ...]] = [(checked,) for cluster in sorted(leaving) for checked in leaving[cluster]]
    while ways:
        longer: list[tuple[CheckedFlow, ...]] = []
        for way in ways:
            if named.intersection(checked.flow for checked in way):
                continue
            if way[-1].flow.target != way[0].flow.source:
                longer += ((*way, checked) for checked in leaving[way[-1].flow.target] if _goes_on(way, checked))
            elif not _tells(way[-1], way[0]) and (loop := _loop(way)) is not None:
                found.append(loop)
                named.update(loop.flows)
        ways = longer
    return tuple(found)


def _goes_on(way: tuple[CheckedFlow, ...], following: CheckedFlow) -> bool:
    """Return whether ``following`` can continue ``way`` in a cycle that starts at the smallest of its clusters."""
    start, target = way[0].flow.source, following.flow.target
    new = target > start and all(checked.flow.source != target for checked in way)
    return (new or target == start) and not _tells(way[-1], following)


def _tells(checked: CheckedFlow, following: CheckedFlow) -> bool:
    """Return whether both add an alias and each recognises the other's, so that copies are not copied again.

    The alias that ``following`` adds has to be that of the target for ``checked``.
    """
    same_alias = checked.aliases.target == following.aliases.source
    return same_alias and _reads(checked, following) and _reads(following, checked)


def _reads(checked: CheckedFlow, other: CheckedFlow) -> bool:
    try:
        remote = other.rules.policy.format_remote_topic(other.aliases.source, "topic")
        return remote != "topic" and checked.rules.policy.topic_source(remote) == other.aliases.source
    except PluginError:
        return False


def _loop(circle: tuple[CheckedFlow, ...]) -> Loop | PossibleLoop | None:
    names = dict.fromkeys(name for checked in circle for element in checked.topics for name in _names(element))
    names |= dict.fromkeys(_heartbeats(circle))
    for start in range(len(circle)):
        flows = (*circle[start:], *circle[:start])
        for name in names:
            if _comes_round(flows, name):
                return Loop(flows=tuple(checked.flow for checked in flows), topic=name)
    unclear = {element for checked in circle for element in checked.topics if not _names(element)}
    if not unclear:
        return None
    return PossibleLoop(flows=tuple(checked.flow for checked in circle), patterns=tuple(sorted(unclear)))


def _heartbeats(circle: Iterable[CheckedFlow]) -> Iterator[str]:
    """Yield the heartbeats topics, which are replicated even if ``topics`` does not select them."""
    for checked in circle:
        with suppress(PluginError):
            yield checked.rules.policy.heartbeats_topic()


def _comes_round(circle: Sequence[CheckedFlow], topic: str) -> bool:
    """Return whether ``topic`` of the first cluster, under its successive names, is still copied in the second round.

    A topic for which a plugin fails is not copied.
    """
    try:
        for _ in range(2):
            for checked in circle:
                if not checked.rules.replicates(topic):
                    return False
                topic = checked.rules.policy.format_remote_topic(checked.aliases.source, topic)
    except PluginError:
        return False
    return True


def _names(element: str) -> tuple[str, ...]:
    """Return names that an element of ``topics`` selects; none if it is any other regular expression.

    A dot is taken literally, as it is usually meant.
    """
    beginning = _BEGINNING.fullmatch(element)
    if beginning:
        return tuple(_plain(beginning[1]) + ending for ending in _ENDINGS if beginning[1] or ending)
    return (_plain(element),) if _NAME.fullmatch(element) else ()


def _plain(pattern: str) -> str:
    return pattern.replace("\\", "")
