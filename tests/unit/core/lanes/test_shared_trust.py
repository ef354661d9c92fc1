"""Trusted certificates are sent to a lane once, however many clients use them."""

from __future__ import annotations

from dataclasses import replace

from pydantic import TypeAdapter

from mm2.core.lanes.lease import LaneOrders, LossesLease, OffsetSyncsLease
from mm2.core.lanes.shared_trust import restore, share
from mm2.core.settings.oauth import OAuthLogin, SecretGrant, TokenEndpoint
from mm2.core.settings.tls import TlsSettings
from tests.unit.core.lanes.test_lease import CLIENT, ORDERS

BUNDLE, OTHER = "-----BEGIN CERTIFICATE-----" + "A" * 200_000, "-----BEGIN CERTIFICATE-----B"
TRUSTING = replace(CLIENT, tls=TlsSettings(ca_pem=BUNDLE, key_pem="KEY"))
GRANT = SecretGrant(client_id="mm2", client_secret="secret")
TOKENS = replace(
    CLIENT,
    tls=TlsSettings(ca_pem=OTHER),
    sasl=OAuthLogin(source=TokenEndpoint(url="https://idp", grant=GRANT, tls=TlsSettings(ca_pem=BUNDLE))),
)
(LEASE,) = ORDERS.source_tasks
assert LEASE.offsets is not None
LEASES = (
    LEASE,
    replace(
        LEASE,
        source_task=1,
        exact_offsets=None,
        source=TRUSTING,
        target=TOKENS,
        offsets=replace(LEASE.offsets, client=TRUSTING),
        offset_syncs=OffsetSyncsLease(client=TRUSTING, topic="mm2-offset-syncs.B.internal", lag_max=100),
        losses=LossesLease(client=TRUSTING, topic="mm2-losses.A.internal"),
    ),
)


def test_each_set_of_certificates_is_sent_once() -> None:
    orders = LaneOrders(version=1, source_tasks=LEASES)
    shared = share(orders)
    assert shared.trusted == (BUNDLE, OTHER)
    adapter = TypeAdapter(LaneOrders)
    raw = adapter.dump_json(shared)
    assert len(raw) < 1.1 * len(BUNDLE)
    assert restore(adapter.validate_json(raw)) == orders


def test_orders_without_trusted_certificates_are_unchanged() -> None:
    assert share(ORDERS) == restore(ORDERS) == ORDERS


def test_a_lease_without_stored_offsets() -> None:
    orders = LaneOrders(version=1, source_tasks=(replace(LEASE, offsets=None, source=TRUSTING),))
    assert restore(share(orders)) == orders
