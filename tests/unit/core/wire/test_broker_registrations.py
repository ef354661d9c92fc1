from __future__ import annotations

import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.wire.broker_registrations import decode_broker_address
from mm2.core.wire.formats import FormatError

PLAINTEXT, SSL, SASL_SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL, SecurityProtocol.SASL_SSL

V1 = b'{"version":1,"host":"b1","port":9092,"jmx_port":-1,"timestamp":"1"}'
V2 = b'{"version":2,"host":"b1","port":9092,"endpoints":["PLAINTEXT://b1:9092","SSL://b1:9093"],"jmx_port":-1}'
V5 = (
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
        (V5, SSL, "[::1]:9094"),
        (V5, SASL_SSL, "b1:9095"),
        (V5, PLAINTEXT, None),
        (b'{"endpoints":[7]}', PLAINTEXT, None),
    ],
)
def test_address_of_the_listener_with_this_protocol(
    raw: bytes, protocol: SecurityProtocol, address: str | None
) -> None:
    assert decode_broker_address(raw, protocol) == address


@pytest.mark.parametrize("raw", [b"", b"creator:b1:9092", b"[]", b'{"host":null,"port":-1}'])
def test_what_is_no_registration(raw: bytes) -> None:
    with pytest.raises(FormatError, match="cannot read broker registration"):
        decode_broker_address(raw, PLAINTEXT)
