"""Fingerprints of a flow's configuration, to compare the files of different nodes.

They cover what is replicated and how, but not addresses, logins or limits of a node (keys that are ``local``). They
contain no password: of a custom class's settings with the name of a secret only the presence counts, so that passwords
cannot be guessed from a digest. A query counts by the digest of its text, in which references are not replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from mm2.config import effective
from mm2.config.effective import CONNECTOR, OWN, Setting, of_client
from mm2.config.flows import FlowProperties
from mm2.config.keys.sql_keys import PREFIX
from mm2.config.reload.comparison import ParsedConfig
from mm2.config.settings import FlowSettings
from mm2.core.settings.row_query import RowQuery

FORMAT = 1
"""Increased when a release computes a different digest for the same file."""

DIGITS = 16
"""64 bits: enough to detect accidental differences, and short enough for a table."""


def terms(reading: ParsedConfig, flow: FlowSettings) -> dict[str, str]:
    """Return the settings of ``flow`` that all its nodes should share: key to value, without defaults.

    Defaults are left out so that a release with more keys agrees with an older one. The values are safe to print.
    """
    properties = FlowProperties.of(reading.file.properties, flow.flow)
    settings = effective.of_flow(properties, enabled=flow.enabled)
    agreed = {
        _name(place, setting, flow): setting.shown or ""
        for (place, _), setting in settings.items()
        if not (setting.default or setting.local)
    }
    agreed |= {
        key: _name_of_content(query.action.sha256)
        for query in flow.queries.in_order
        for kind in ("query", "file")
        if isinstance(query.action, RowQuery) and (OWN, key := f"{PREFIX}{query.name}.{kind}") in settings
    }
    return dict(sorted(agreed.items()))


def _name_of_content(sha256: str) -> str:
    return f"sha256 {sha256[:DIGITS]}"


def digest(agreed: Mapping[str, str]) -> str:
    """Return the digest of `terms`, such as ``1-0123456789abcdef``, which does not depend on their order."""
    text = json.dumps(dict(agreed), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{FORMAT}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def differ(mine: str, theirs: str) -> bool:
    """Return whether two digests show different terms. Digests of different formats do not: two releases run together
    during an upgrade."""
    return mine != theirs and mine.partition("-")[0] == theirs.partition("-")[0]


def differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of two `terms` that differ, sorted."""
    return tuple(sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)))


def _name(place: str, setting: Setting, flow: FlowSettings) -> str:
    """Return the key as it is written in the file."""
    client = of_client(place)
    if client is None:
        return setting.name if place in (CONNECTOR, OWN) else f"{flow.flow.target}.{setting.name}"
    side, _, kind = client.partition("_")
    alias = flow.flow.source if side == "source" else flow.flow.target
    if client == "record_producer":
        return f"{flow.flow}.producer.override.{setting.name}"
    return f"{alias}.{kind}.{setting.name}" if kind else f"{alias}.{setting.name}"
