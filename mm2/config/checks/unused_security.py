"""Check for ssl.* and sasl.* without effect, because security.protocol does not use them.

The file is valid in Java too, but connections are less secure than the user may expect. If no line sets
security.protocol, the user has not chosen that: it is an error, as if its line were misspelt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mm2.config.checks.near_misses import NearMissRule, Purpose
from mm2.config.flows import FlowProperties
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys.node_keys import UnknownKeys
from mm2.config.security.property_names import sibling
from mm2.config.security.security import uses_sasl, uses_tls
from mm2.core.naming.names import Flow
from mm2.core.settings.client import SecurityProtocol

_PROTOCOL = "security.protocol"
_STORES = ("ssl.truststore.location", "ssl.truststore.certificates", "ssl.keystore.location", "ssl.keystore.key")
_LOGIN = ("sasl.jaas.config", "sasl.mechanism")
"""The properties that show the intention to encrypt or to authenticate."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A line that a client reads as property ``name``, while it has ``protocol``, by default or not."""

    value: Value
    name: str
    protocol: SecurityProtocol
    by_default: bool

    @property
    def is_used(self) -> bool:
        return uses_sasl(self.protocol) if self.name in _LOGIN else uses_tls(self.protocol)

    @property
    def level(self) -> tuple[str, bool]:
        """The level of the line and whether it is about SASL: one warning is enough for all such lines."""
        return sibling(self.value, self.name, ""), self.name in _LOGIN


def check_unused_security(
    properties: Properties, flows: Iterable[Flow], problems: ProblemLog, near_misses: NearMissRule, *, https: bool
) -> None:
    """Add a problem for each level whose ssl.* or sasl.* no client of ``flows`` uses, which are all of the file's.

    ``https``: listeners or calls to other nodes use TLS, for which ssl.* without a prefix can be meant.
    """
    if not any(map(_is_checked, properties)):
        return
    uses = [
        use
        for flow in flows
        for client in FlowProperties.of(properties, flow).clients.values()
        for use in _uses(client)
    ]
    _check(uses, properties, problems, near_misses, https=https)


def check_unused_security_of_client(properties: Properties, problems: ProblemLog) -> None:
    """Add warnings for the properties of a single client, which have no prefix."""
    _check(list(_uses(properties)), properties, problems, NearMissRule(UnknownKeys.WARN), https=False)


def _check(
    uses: Sequence[_Use], properties: Properties, problems: ProblemLog, near_misses: NearMissRule, *, https: bool
) -> None:
    used = {use.level for use in uses if use.is_used}
    if https:
        used.add(("", False))
    unused: dict[tuple[str, bool], _Use] = {}
    for use in sorted(uses, key=_line):
        if use.level not in used:
            unused.setdefault(use.level, use)
    for (level, is_sasl), use in unused.items():
        with_sasl = is_sasl or uses_sasl(use.protocol) or (level, True) in unused
        _report(use, properties, problems, near_misses, protocol="SASL_SSL" if with_sasl else "SSL")


def _is_checked(key: str) -> bool:
    return key.endswith((*_STORES, *_LOGIN))


def _uses(client: Properties) -> Iterator[_Use]:
    by_default = _PROTOCOL not in client
    protocol = "PLAINTEXT" if by_default else client[_PROTOCOL].text.strip().upper()
    if protocol not in set(SecurityProtocol):
        return  # has an error already
    for name, value in client.items():
        if name in _STORES or name in _LOGIN:
            yield _Use(value, name, SecurityProtocol(protocol), by_default)


def _report(
    use: _Use, properties: Properties, problems: ProblemLog, near_misses: NearMissRule, *, protocol: str
) -> None:
    key = sibling(use.value, use.name, _PROTOCOL)
    is_sasl = use.name in _LOGIN
    default = " (the default)" if use.by_default else ""
    rule = f"{'sasl' if is_sasl else 'ssl'}.* has no effect because {_PROTOCOL} = {use.protocol}{default}, so " + (
        "clients do not authenticate" if is_sasl else "connections are not encrypted"
    )
    fix = f"{'write' if key in properties else 'add'} {key} = {protocol}"
    assert use.value.entry is not None
    if use.by_default and near_misses.refuses(use.value.entry, Purpose.PROTECTS):
        use.value.refuse(problems, rule, f"{fix}, or {key} = {use.protocol} if that is intended")
    else:
        use.value.warn(problems, rule, fix)


def _line(use: _Use) -> int:
    assert use.value.entry is not None
    return use.value.entry.line
