"""Registrations of brokers as Kafka 0.8 to 3.9 write them (Kafka: BrokerIdZNode, EndPoint)."""

from __future__ import annotations

import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.wire.broker_registrations import decode_broker_address
from mm2.core.wire.formats import FormatError

PLAINTEXT, SSL, SASL_SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL, SecurityProtocol.SASL_SSL

V1 = b'{"version":1,"host":"b1","port":9092,"jmx_port":9999,"timestamp":"2233345666"}'
V2 = b'{"version":2,"host":"b1","port":9092,"endpoints":["PLAINTEXT://b1:9092","SSL://b1:9093"],"jmx_port":-1}'
V3 = (
    b'{"version":3,"host":"b1","port":9092,"jmx_port":-1,"timestamp":"1",'
    b'"endpoints":["PLAINTEXT://b1:9092","SSL://[::1]:9093"],"rack":"r"}'
)
V5 = (
    b'{"version":5,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","endpoints":["CLIENT://b1:9092","IN://b1:9093"],'
    b'"listener_security_protocol_map":{"CLIENT":"SSL","IN":"SASL_SSL"},"features":{}}'
)
V5_IPV6 = (
    b'{"version":5,"host":null,"port":-1,"endpoints":["IN://[::1]:9094","OUT://b1:9095"],'
    b'"listener_security_protocol_map":{"IN":"SSL","OUT":"SASL_SSL"}}'
)


@pytest.mark.parametrize(
    ("raw", "protocol", "address"),
    [
        (V1, PLAINTEXT, "b1:9092"),
        (V1, SSL, None),
        (V2, PLAINTEXT, "b1:9092"),
        (V2, SSL, "b1:9093"),
        (V2, SASL_SSL, None),
        (V3, PLAINTEXT, "b1:9092"),
        (V3, SSL, "[::1]:9093"),
        (V5, SSL, "b1:9092"),
        (V5, SASL_SSL, "b1:9093"),
        (V5, PLAINTEXT, None),
        (V5_IPV6, SSL, "[::1]:9094"),
        (V5_IPV6, SASL_SSL, "b1:9095"),
        (V5_IPV6, PLAINTEXT, None),
    ],
)
def test_address_of_the_listener_with_this_protocol(
    raw: bytes, protocol: SecurityProtocol, address: str | None
) -> None:
    assert decode_broker_address(raw, protocol) == address


@pytest.mark.parametrize(
    ("raw", "protocol", "address"),
    [
        (b'{"host":"b1","port":-1}', PLAINTEXT, None),
        (b'{"endpoints":["SSL://:9093"]}', SSL, None),
        (b'{"endpoints":["SSL://b1:-1"]}', SSL, None),
        (b'{"endpoints":["SSL://:9093","SSL://b1:9094"]}', SSL, "b1:9094"),
        (b'{"endpoints":[],"host":"b1","port":9092}', PLAINTEXT, None),
    ],
)
def test_listener_without_an_address(raw: bytes, protocol: SecurityProtocol, address: str | None) -> None:
    """Kafka reads these as listeners with a null host or port -1, to which no client can connect."""
    assert decode_broker_address(raw, protocol) == address


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"creator:b1:9092",
        b"10.0.0.1-1330912345:10.0.0.1:9092",
        b"[]",
        b'{"host":null,"port":-1}',
        b'{"endpoints":null,"host":"b1","port":1}',
        b'{"endpoints":["b1"]}',
        b'{"endpoints":[7]}',
        b'{"endpoints":["PLAINTEXT://b1:9092"],"listener_security_protocol_map":{"IN":"SSL"}}',
    ],
)
def test_what_is_no_registration(raw: bytes) -> None:
    with pytest.raises(FormatError, match="cannot read broker registration"):
        decode_broker_address(raw, PLAINTEXT)
