"""Flows that would copy topics round and round, found before they run.

The default policy sees a cycle in a topic's name, ``A.orders``. IdentityReplicationPolicy keeps names, so nothing tells
a copy from an original: with A->B and B->A over the same topic every record is copied for ever. So it is in any circle
of flows in which no two that rename follow each other: X->Y stops what Y->Z has put the alias Y in front of.

The check sends the name of a topic along the flows, as their own rules would. Names are taken from ``topics``; those of
a regular expression can be told where it is a name or a beginning, ``orders`` or ``orders.*``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mm2.core.names import Flow
from mm2.core.plugins import PluginError
from mm2.core.replication_filter import ReplicationFilter

_NAME = re.compile(r"(?:[A-Za-z0-9_-]|\\?\.(?!\*)|\\-)*")
_BEGINNING = re.compile(rf"({_NAME.pattern})\.\*")
_ENDINGS = ("", "x", "-0")  # tried after a beginning, since topics.exclude may refuse one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFlow:
    """An enabled flow, the ``rules`` it replicates by, and the elements of its ``topics``. For a filter of a user's own
    the one element is its class, ``module:Class``, which does not tell what it selects."""

    rules: ReplicationFilter
    topics: tuple[str, ...]

    @property
    def flow(self) -> Flow:
        return self.rules.flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """``flows`` would copy ``topic`` for ever. To be refused; as a text, the reason."""

    flows: tuple[Flow, ...]
    topic: str

    def __str__(self) -> str:
        return (
            f"{', '.join(map(str, self.flows))} would copy topics such as {self.topic} round and round: the names that"
            f" their replication policies give do not tell a copy from an original. Disable one of these flows, give"
            f" them topics that do not meet, or use DefaultReplicationPolicy"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleLoop:
    """``flows`` are a circle that would not see copies, and ``patterns`` do not tell which topics they select."""

    flows: tuple[Flow, ...]
    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{', '.join(map(str, self.flows))} are a circle, and the names that their replication policies give do not"
            f" tell a copy from an original. A topic that all of them select would be copied round and round;"
            f" {', '.join(self.patterns)} does not say whether there is one. Make sure that there is none"
        )


def find_loops(flows: Iterable[CheckedFlow]) -> tuple[Loop | PossibleLoop, ...]:
    """The loops of the enabled ``flows``, the shortest first. A flow that is part of one is not looked at for longer
    ones: it has to change anyway."""
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
    """Whether ``following`` can belong to a circle that begins with ``way`` at the smallest of its clusters."""
    start, target = way[0].flow.source, following.flow.target
    new = target > start and all(checked.flow.source != target for checked in way)
    return (new or target == start) and not _tells(way[-1], following)


def _tells(checked: CheckedFlow, following: CheckedFlow) -> bool:
    """Whether both put an alias in front and each reads the other's: then what they copied is not copied again."""
    return _reads(checked, following) and _reads(following, checked)


def _reads(checked: CheckedFlow, other: CheckedFlow) -> bool:
    try:
        remote = other.rules.policy.format_remote_topic(other.flow.source, "topic")
        return remote != "topic" and checked.rules.policy.topic_source(remote) == other.flow.source
    except PluginError:
        return False


def _loop(circle: tuple[CheckedFlow, ...]) -> Loop | PossibleLoop | None:
    names = dict.fromkeys(name for checked in circle for element in checked.topics for name in _names(element))
    for start in range(len(circle)):
        flows = (*circle[start:], *circle[:start])
        for name in names:
            if _comes_round(flows, name):
                return Loop(flows=tuple(checked.flow for checked in flows), topic=name)
    unclear = {element for checked in circle for element in checked.topics if not _names(element)}
    if not unclear:
        return None
    return PossibleLoop(flows=tuple(checked.flow for checked in circle), patterns=tuple(sorted(unclear)))


def _comes_round(circle: Sequence[CheckedFlow], topic: str) -> bool:
    """Whether ``topic`` of the first cluster, or what became of it, is still copied the second time round. A topic that
    a user's class says nothing about is not copied."""
    try:
        for _ in range(2):
            for checked in circle:
                if not checked.rules.replicates(topic):
                    return False
                topic = checked.rules.policy.format_remote_topic(checked.flow.source, topic)
    except PluginError:
        return False
    return True


def _names(element: str) -> tuple[str, ...]:
    """Names that an element of ``topics`` selects; none where it is a regular expression of another kind.

    A dot is read as the dot it is usually meant to be.
    """
    beginning = _BEGINNING.fullmatch(element)
    if beginning:
        return tuple(_plain(beginning[1]) + ending for ending in _ENDINGS if beginning[1] or ending)
    return (_plain(element),) if _NAME.fullmatch(element) else ()


def _plain(pattern: str) -> str:
    return pattern.replace("\\", "")
