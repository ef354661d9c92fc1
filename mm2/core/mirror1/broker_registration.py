r"""Registrations of brokers in ZooKeeper: the JSON in ``/brokers/ids/<id>`` (Kafka: BrokerIdZNode).

version 1          {"version":1,"host":"b1","port":9092,"jmx_port":-1,"timestamp":"…"}
version 2, 3       the same, with "endpoints":["PLAINTEXT://b1:9092","SSL://b1:9093"]; host is null without PLAINTEXT
version 4, 5       the same, with "listener_security_protocol_map":{"INTERNAL":"SSL"}: listeners have names
"""

from __future__ import annotations

import json
import re

from mm2.core.settings.client import SecurityProtocol
from mm2.core.wire.formats import FormatError

_ENDPOINT = re.compile(r"(?P<listener>[^:]+)://(?P<address>(?P<host>\[?[\w.:%-]*\]?):(?P<port>[0-9]{1,5}))", re.ASCII)


def broker_address(raw: bytes, protocol: SecurityProtocol) -> str | None:
    """Return ``host:port`` of a broker's listener with ``protocol``; None if it has no such listener.

    Raises FormatError if ``raw`` is not a registration, such as one of Kafka 0.7.
    """
    try:
        found = json.loads(raw)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FormatError(f"cannot read the registration of a broker: {raw!r:.200}")
    names = found.get("listener_security_protocol_map")
    for endpoint in found.get("endpoints") or ():
        match = _ENDPOINT.fullmatch(str(endpoint))
        if match is None:
            raise FormatError(f"cannot read the endpoint of a broker: {endpoint!r:.200}")
        listener = match["listener"]
        if match["host"] and protocol.value == (names.get(listener) if isinstance(names, dict) else listener):
            return match["address"]
    host, port = found.get("host"), found.get("port")
    plain = protocol is SecurityProtocol.PLAINTEXT and "endpoints" not in found
    return f"{host}:{port}" if plain and isinstance(host, str) and isinstance(port, int) and port > 0 else None
