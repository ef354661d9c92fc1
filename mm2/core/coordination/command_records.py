"""Records of commands for all nodes of a flow, published by the leader in ``mm2-configs.*``.

    mm2-command     {"command":"restart","task":"MirrorSourceConnector-0","asked":1763740800000}
    mm2-command     {"command":"refresh","asked":1763740800000}

A node executes only commands that arrive while it follows the topic. Java skips the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mm2.core.coordination.commands import Command, CommandType, as_message, parse_message
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

KEY = b"mm2-command"


def encode_command(command: Command, asked_ms: int) -> bytes:
    """Return the record's value. ``asked_ms``: epoch milliseconds of the leader's clock, for readers of the topic."""
    return json.dumps(as_message(command) | {"asked": asked_ms}, ensure_ascii=False, separators=(",", ":")).encode()


def decode_command(value: bytes | None, types: Mapping[str, CommandType]) -> Command:
    """Read the record's value. Raises FormatError."""
    try:
        return parse_message(decode_json(value, "command"), types)
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(f"cannot read command: {error}: {value!r:.200}") from None
