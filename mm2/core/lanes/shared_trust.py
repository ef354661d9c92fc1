"""Trusted certificates in a lane's orders, each set once.

Java's default trust store has 200 KB. Each source task has up to six clients, and a lane many source tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mm2.core.lanes.lease import LaneOrders, SourceTaskLease
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.oauth import OAuthLogin, TokenEndpoint
from mm2.core.settings.tls import TlsSettings

_REFERENCE = "shared:"
"""Begins a ``ca_pem`` that is an index of `LaneOrders.trusted`. No PEM text without certificates is valid."""


def share(orders: LaneOrders) -> LaneOrders:
    """Return ``orders`` with each set of trusted certificates once, in ``trusted``."""
    numbers: dict[str, int] = {}

    def reference(pem: str) -> str:
        return f"{_REFERENCE}{numbers.setdefault(pem, len(numbers))}"

    source_tasks = tuple(_changed(lease, reference) for lease in orders.source_tasks)
    return replace(orders, source_tasks=source_tasks, trusted=tuple(numbers))


def restore(orders: LaneOrders) -> LaneOrders:
    """Return the orders that `share` was called with."""

    def text(pem: str) -> str:
        return orders.trusted[int(pem.removeprefix(_REFERENCE))] if pem.startswith(_REFERENCE) else pem

    source_tasks = tuple(_changed(lease, text) for lease in orders.source_tasks)
    return replace(orders, source_tasks=source_tasks, trusted=())


def _changed(lease: SourceTaskLease, change: Callable[[str], str]) -> SourceTaskLease:
    def tls(settings: TlsSettings) -> TlsSettings:
        return settings if settings.ca_pem is None else replace(settings, ca_pem=change(settings.ca_pem))

    def client(settings: ClientSettings) -> ClientSettings:
        settings = replace(settings, tls=tls(settings.tls))
        if isinstance(login := settings.sasl, OAuthLogin) and isinstance(endpoint := login.source, TokenEndpoint):
            trusting = replace(endpoint, tls=tls(endpoint.tls)) if endpoint.tls is not None else endpoint
            settings = replace(settings, sasl=replace(login, source=trusting))
        return settings

    syncs, exact, losses = lease.offset_syncs, lease.exact_offsets, lease.losses
    return replace(
        lease,
        source=client(lease.source),
        target=client(lease.target),
        offsets=None if lease.offsets is None else replace(lease.offsets, client=client(lease.offsets.client)),
        offset_syncs=None if syncs is None else replace(syncs, client=client(syncs.client)),
        exact_offsets=None if exact is None else replace(exact, client=client(exact.client)),
        losses=None if losses is None else replace(losses, client=client(losses.client)),
    )
