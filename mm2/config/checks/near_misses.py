"""Keys that must not be lost by a typing error: those that select or protect data.

An ignored line of another key leaves a default. An ignored ``A->B.tpoics`` copies topics that were to stay, and an
ignored ``A.security.protcol`` sends passwords in plain text. So what looks like one of these keys is an error, unless
``mm2.unknown.keys = warn``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.config.checks.meant_keys import asks_for_query, asks_for_selection
from mm2.config.grammar.properties import Entry
from mm2.config.keys.node_keys import UnknownKeys
from mm2.config.keys.sql_keys import PREFIX
from mm2.config.security.oauth.keys import BROKER_KEYS


@dataclass(frozen=True, slots=True)
class NearMissRule:
    """What near misses are in a file: errors, unless ``mode`` says otherwise, or a line, key and value, is one of the
    ``accepted``: Java ran the flows with it.

    ``refused`` collects the lines that are errors and that Java can have ignored.
    """

    mode: UnknownKeys = UnknownKeys.ERROR
    accepted: Mapping[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def refuses(self, line: Entry, purpose: Purpose) -> bool:
        """Return whether a line, a near miss of a key with this ``purpose``, is an error."""
        if self.mode is UnknownKeys.WARN:
            return False
        if purpose is Purpose.TRANSFORMS:  # Java has no queries: it never ran with the key that was meant
            return True
        if self.accepted.get(line.key) == line.raw:
            return False
        self.refused[line.key] = line.raw
        return True


class Purpose(StrEnum):
    """What such a key is for, as it completes "a key that …"."""

    SELECTS = "selects topics or groups"
    TRANSFORMS = "changes or drops records"
    PROTECTS = "protects connections"
    ENABLES = "enables flows"


_SELECTING = frozenset(
    f"{names}{ending}" for names in ("topics", "groups") for ending in ("", ".exclude", ".blacklist")
)
_PROTECTING = re.compile(r"security\.protocol|(?:ssl|sasl)\..+")
_CLIENT = re.compile(
    r"(?:(?:source|target)\.)?(?:cluster\.|listeners\.https\.|(?:consumer|producer|admin)\.(?:override\.)?)?"
)
"""What stands before the name of a client's property, without a cluster or flow."""

_OF_BROKERS = frozenset(BROKER_KEYS) | {
    "sasl.enabled.mechanisms",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
    "security.inter.broker.protocol",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.client.auth",
    "ssl.principal.mapping.rules",
}
"""Keys of brokers and listeners, which many files have copied: no client reads them."""

_BEHIND_PREFIX = re.compile(
    r"(?:(?:source|target|cluster|consumer|producer|admin|mirror|mm2|kafka)\.)+"
    r"(?P<selects>(?:topics|groups)(?:\.exclude|\.blacklist)?|enabled)"
    r"|.*\.(?P<protects>security\.protocol|(?:ssl|sasl)\.[\w.]+)"
)
"""Names behind words that other programs write before them. Other words are those of other keys, such as
``acme.topics``; what protects a connection has a name that nothing else has."""


def bare_name(name: str) -> str:
    """Return a key without the client that it is for: ``ssl.truststore.location`` of ``source.consumer.ssl.…``."""
    return name[match.end() :] if (match := _CLIENT.match(name)) else name


def purpose_of(name: str) -> Purpose | None:
    """Return what a known key is for, written without cluster or flow; None: neither selects nor protects it data."""
    if name in _SELECTING:
        return Purpose.SELECTS
    if name == "enabled":
        return Purpose.ENABLES
    if name.startswith(PREFIX):
        return Purpose.TRANSFORMS
    bare = bare_name(name)
    return Purpose.PROTECTS if _PROTECTING.fullmatch(bare) and bare not in _OF_BROKERS else None


def missed_purpose(name: str, meant: str | None) -> Purpose | None:
    """Return what an unknown key was to be for: that of the key that was ``meant``, or if it is not clear which one,
    what the name tells."""
    if bare_name(name) in _OF_BROKERS:
        return None
    if meant is not None:
        return purpose_of(meant)
    if (known := purpose_of(name)) is not None:
        return known
    if asks_for_query(name):
        return Purpose.TRANSFORMS
    if asks_for_selection(name):
        return Purpose.SELECTS
    match = _BEHIND_PREFIX.fullmatch(name)
    return None if match is None else purpose_of(match["selects"] or match["protects"])
