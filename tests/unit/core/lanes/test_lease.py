from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from mm2.core.lanes.lease import (
    ExactOffsetsLease,
    FlowLease,
    LaneOrders,
    LeaseGrant,
    LeaseRenewal,
    LeaseRequest,
    OffsetsLease,
    PartitionLease,
    SourceTaskLease,
    credentials_of,
)
from mm2.core.naming.names import Flow
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.settings.client import ClientSettings, FetchSettings, ProduceSettings, SecurityProtocol
from mm2.core.settings.kerberos import KerberosLogin, TicketRenewal
from mm2.core.settings.oauth import (
    AssertionFile,
    ClientAssertionGrant,
    JwtBearerGrant,
    OAuthLogin,
    RefreshSettings,
    SecretGrant,
    SignedAssertion,
    TokenEndpoint,
    TokenFile,
    TokenPlugin,
    UnsecuredToken,
)
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.core.settings.tls import TlsSettings

CLIENT = ClientSettings(
    bootstrap_servers=("127.0.0.1:9092",),
    sasl=PasswordLogin(mechanism=SaslMechanism.PLAIN, username="u", password="s3cret"),
    tls=TlsSettings(key_pem="s3cret", key_password="s3cret"),
)
ORDERS = LaneOrders(
    version=1,
    source_tasks=(
        SourceTaskLease(
            flow=Flow("A", "B"),
            source_task=0,
            epoch=1,
            source=CLIENT,
            fetch=FetchSettings(start=1_793_491_200_000),
            target=CLIENT,
            produce=ProduceSettings(),
            offsets=OffsetsLease(
                client=CLIENT, topic="mm2-offsets.A.internal", partitions=25, source_alias="A", flush_interval_ms=5000
            ),
            offset_syncs=None,
            exact_offsets=ExactOffsetsLease(client=CLIENT, topic="mm2-exact-offsets.A.internal"),
            partitions=(
                PartitionLease(topic="t", partition=0, remote_topic="A.t", start_offset=None),
                PartitionLease(
                    topic="u",
                    partition=1,
                    remote_topic="A.u",
                    start_offset=0,
                    topic_ids=TopicIds(UUID(int=7), None),
                    topic_recreated=True,
                    last_segment="AAAA",
                ),
            ),
        ),
    ),
)
GRANT = LeaseGrant(
    session="s3cret",
    renewal=LeaseRenewal(seconds=14, flows=(FlowLease(flow=Flow("A", "B"), seconds=9.5),), orders=ORDERS),
)


@pytest.mark.parametrize("value", [GRANT, LeaseRequest(token="s3cret", nonce="s3cret")])
def test_secrets_are_hidden(value: object) -> None:
    assert "s3cret" not in repr(value)


OAUTH_LOGINS = [
    OAuthLogin(
        source=TokenEndpoint(
            url="https://idp",
            grant=SecretGrant(client_id="c", client_secret="s3cret"),
            tls=TlsSettings(ca_pem="ca", key_pem="s3cret"),
        ),
        extensions=(("logicalCluster", "lkc"),),
        refresh=RefreshSettings(window_factor=0.5),
    ),
    OAuthLogin(
        source=TokenEndpoint(
            url="https://idp",
            grant=ClientAssertionGrant(client_id=None, assertion=AssertionFile(jwt="s3cret")),
        )
    ),
    OAuthLogin(
        source=TokenEndpoint(
            url="https://idp",
            grant=JwtBearerGrant(assertion=SignedAssertion(private_key="s3cret", claims=(("iss", "mm2"),))),
        )
    ),
    OAuthLogin(source=TokenFile(jwt="s3cret")),
    OAuthLogin(source=UnsecuredToken(claims='{"sub": "mm2"}')),
    OAuthLogin(
        source=TokenPlugin(
            import_string="a:B", options=(("x", "s3cret"),), properties=(("y", "s3cret"),), secrets=("s3cret",)
        )
    ),
]


@pytest.mark.parametrize("login", OAUTH_LOGINS)
def test_logins_of_oauth_arrive_in_lanes(login: OAuthLogin) -> None:
    client = replace(CLIENT, sasl=login)
    adapter = TypeAdapter(ClientSettings)
    assert adapter.validate_json(adapter.dump_json(client)) == client
    assert "s3cret" not in repr(login)


@pytest.mark.parametrize(
    "login",
    [
        KerberosLogin(service_name="kafka", principal="mm2@A", keytab="s3cret", krb5_conf="[libdefaults]"),
        KerberosLogin(
            service_name="kafka",
            principal="mm2@A",
            ticket_cache_file="/tmp/krb5cc_0",
            renewal=TicketRenewal(window_factor=0.5, jitter=0.0, min_seconds=1.0, kinit="kinit"),
        ),
    ],
)
def test_kerberos_logins_travel_with_leases(login: KerberosLogin) -> None:
    adapter, client = TypeAdapter(ClientSettings), replace(CLIENT, sasl=login)
    assert adapter.validate_json(adapter.dump_json(client)) == client
    assert "s3cret" not in repr(login)


def test_json_round_trip_with_secrets() -> None:
    adapter = TypeAdapter(LeaseGrant)
    assert adapter.validate_json(adapter.dump_json(GRANT)) == GRANT


def test_a_lane_gets_the_files_that_its_clients_read_again() -> None:
    """Of all clients of a lease; files of other flows stay on the node."""
    (lease,) = ORDERS.source_tasks
    keytab = KerberosLogin(service_name="kafka", principal="mm2@EXAMPLE.COM", keytab_file="/etc/b.keytab")
    target = replace(CLIENT, security_protocol=SecurityProtocol.SASL_SSL, sasl=keytab)
    assert replace(lease, target=target).clients[1] == target
    contents = {"/etc/a.keytab": "a", "/etc/b.keytab": "b"}
    assert credentials_of([lease], contents) == {}
    assert credentials_of([lease, replace(lease, target=target)], contents) == {"/etc/b.keytab": "b"}
