"""Registrations of brokers in ZooKeeper, ``/brokers/ids/<id>`` (Java: kafka.zk.BrokerIdZNode, 0.8 to 3.9).

    {"version":1,"host":"b1","port":9092,"jmx_port":-1,"timestamp":"…"}
    {"version":5,…,"endpoints":["INTERNAL://b1:9092"],"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT"}}

Endpoints exist from version 2 on, and carry the name of their listener; before version 4 that is the security protocol.
``host`` and ``port`` are those of the PLAINTEXT endpoint; null and -1 without one.
"""

from __future__ import annotations

from typing import Any

from mm2.core.settings.client import SecurityProtocol
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json


def decode_broker_address(raw: bytes, protocol: SecurityProtocol) -> str | None:
    """Return ``host:port`` of the broker's first listener with this security protocol; None if it has none.

    Raises FormatError.
    """
    match decode_json(raw, "broker registration"):
        case {"endpoints": list(endpoints), **rest}:
            return _endpoint(endpoints, rest.get("listener_security_protocol_map"), protocol)
        case {"host": str(host), "port": int(port)}:
            return f"{host}:{port}" if protocol is SecurityProtocol.PLAINTEXT else None
    raise FormatError(f"cannot read broker registration: no host, port or endpoints in it: {raw!r:.200}")


def _endpoint(endpoints: list[Any], protocols: object, protocol: SecurityProtocol) -> str | None:
    for endpoint in endpoints:
        listener, separator, address = str(endpoint).partition("://")
        used = protocols.get(listener, listener) if isinstance(protocols, dict) else listener
        if separator and used == protocol:
            return address
    return None
