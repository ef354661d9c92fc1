"""Registrations of brokers in ZooKeeper, ``/brokers/ids/<id>`` (Java: kafka.zk.BrokerIdZNode, 0.8 to 3.9).

version 1        {"version":1,"host":"b1","port":9092,"jmx_port":-1,"timestamp":"1"}
version 2, 3     the same, with "endpoints":["PLAINTEXT://b1:9092","SSL://b1:9093"]
version 4, 5     the same, with "listener_security_protocol_map":{"INTERNAL":"SSL"}: listeners have names

Next to endpoints, ``host`` and ``port`` are those of the PLAINTEXT endpoint, null and -1 without one; Kafka does not
read them.
"""

from __future__ import annotations

import re

from mm2.core.settings.client import SecurityProtocol
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

_ENDPOINT = re.compile(r"(?P<listener>[^:]+)://(?P<host>\[?[\w.:%-]*\]?):(?P<port>-?[0-9]{1,5})", re.ASCII)


def decode_broker_address(raw: bytes, protocol: SecurityProtocol) -> str | None:
    """Return ``host:port`` of the broker's first listener with this security protocol.

    None if it has none, or only listeners without a host or a port (Java: EndPoint has a null host, or port -1).

    Raises FormatError for what is no registration, such as one of Kafka 0.7, and for an endpoint that cannot be read.
    """
    match decode_json(raw, "broker registration"):
        case {"endpoints": list(endpoints), **rest}:
            protocols = rest.get("listener_security_protocol_map")
            addresses = (_endpoint(one, protocols, protocol) for one in endpoints)
            return next((address for address in addresses if address is not None), None)
        case {"host": str(host), "port": int(port), **rest} if "endpoints" not in rest:
            return _address(host, port) if protocol is SecurityProtocol.PLAINTEXT else None
    raise FormatError(f"cannot read broker registration: no host, port or endpoints in it: {raw!r:.200}")


def _endpoint(endpoint: object, protocols: object, protocol: SecurityProtocol) -> str | None:
    found = _ENDPOINT.fullmatch(endpoint) if isinstance(endpoint, str) else None
    if found is None:
        raise FormatError(f"cannot read broker registration: {endpoint!r:.200} is not an endpoint")
    used = listener = found["listener"]
    if isinstance(protocols, dict):
        if listener not in protocols:
            raise FormatError(f"cannot read broker registration: listener {listener:.200} has no security protocol")
        used = protocols[listener]
    return _address(found["host"], int(found["port"])) if used == protocol else None


def _address(host: str, port: int) -> str | None:
    return f"{host}:{port}" if host and port > 0 else None
