"""Registrations of brokers as Kafka 0.8 to 3.9 write them (Kafka: BrokerIdZNode)."""

from __future__ import annotations

import pytest

from mm2.core.mirror1.broker_registration import broker_address
from mm2.core.settings.client import SecurityProtocol
from mm2.core.wire.formats import FormatError

PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL
V1 = b'{"version":1,"host":"b1","port":9092,"jmx_port":9999,"timestamp":"2233345666"}'
V3 = (
    b'{"version":3,"host":"b1","port":9092,"jmx_port":-1,"timestamp":"1",'
    b'"endpoints":["PLAINTEXT://b1:9092","SSL://[::1]:9093"],"rack":"r"}'
)
V5 = (
    b'{"version":5,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","endpoints":["CLIENT://b1:9092","IN://b1:9093"],'
    b'"listener_security_protocol_map":{"CLIENT":"SSL","IN":"SASL_SSL"},"features":{}}'
)


@pytest.mark.parametrize(
    ("raw", "protocol", "address"),
    [
        (V1, PLAINTEXT, "b1:9092"),
        (V1, SSL, None),
        (V3, PLAINTEXT, "b1:9092"),
        (V3, SSL, "[::1]:9093"),
        (V5, SSL, "b1:9092"),
        (V5, SecurityProtocol.SASL_SSL, "b1:9093"),
        (V5, PLAINTEXT, None),
        (b'{"host":"b1","port":-1}', PLAINTEXT, None),
        (b'{"endpoints":["SSL://:9093"]}', SSL, None),
        (b'{"endpoints":null,"host":"b1","port":1}', PLAINTEXT, None),
    ],
)
def test_address(raw: bytes, protocol: SecurityProtocol, address: str | None) -> None:
    assert broker_address(raw, protocol) == address


@pytest.mark.parametrize("raw", [b"10.0.0.1-1330912345:10.0.0.1:9092", b"[]", b"\xff", b'{"endpoints":["b1"]}'])
def test_other_data(raw: bytes) -> None:
    with pytest.raises(FormatError):
        broker_address(raw, PLAINTEXT)
