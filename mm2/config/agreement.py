"""Do the nodes of a flow read the same out of their files? Laid beside each other without the files themselves.

What counts is what decides which records, groups and settings arrive, and how: not where a node finds a cluster, how it
logs in, or how much it may do itself (keys that are ``local``). So no password is among it, and what a user's own class
is told under the name of a secret counts as there or not there only: who sees a digest cannot try passwords on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from mm2.config import effective
from mm2.config.comparison import Reading
from mm2.config.effective import CONNECTOR, OWN, Setting, of_client
from mm2.config.flows import FlowProperties
from mm2.config.settings import FlowSettings

FORMAT = 1
"""Raised when the same file would have another digest by another release of ours."""

DIGITS = 16
"""64 bits: nodes that differ by accident are told apart, and it fits into a table."""


def terms(reading: Reading, flow: FlowSettings) -> dict[str, str]:
    """What a node runs ``flow`` on, as far as all its nodes should agree: key to value, only what is not the default.

    Defaults are left out so that a release that knows more keys agrees with one that does not. The values may be shown.
    """
    properties = FlowProperties.of(reading.file.properties, flow.flow)
    settings = effective.of_flow(properties, enabled=flow.enabled)
    agreed = {
        _name(place, setting, flow): setting.shown or ""
        for (place, _), setting in settings.items()
        if not (setting.default or setting.local)
    }
    return dict(sorted(agreed.items()))


def digest(agreed: Mapping[str, str]) -> str:
    """`terms` in one word, ``1-0123456789abcdef``: equal for equal terms, whatever their order."""
    text = json.dumps(dict(agreed), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{FORMAT}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def differ(mine: str, theirs: str) -> bool:
    """Whether two digests are of different terms. Those of another format say nothing about it: nodes of two releases
    run beside each other while a cluster of nodes is upgraded."""
    return mine != theirs and mine.partition("-")[0] == theirs.partition("-")[0]


def differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of two `terms` that are not the same, in order."""
    return tuple(sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)))


def _name(place: str, setting: Setting, flow: FlowSettings) -> str:
    """As one would write it in the file."""
    client = of_client(place)
    if client is None:
        return setting.name if place in (CONNECTOR, OWN) else f"{flow.flow.target}.{setting.name}"
    side, _, kind = client.partition("_")
    alias = flow.flow.source if side == "source" else flow.flow.target
    if client == "record_producer":
        return f"{flow.flow}.producer.override.{setting.name}"
    return f"{alias}.{kind}.{setting.name}" if kind else f"{alias}.{setting.name}"
