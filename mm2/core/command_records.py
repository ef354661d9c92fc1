"""Commands that every node of a flow must hear of, as the leader publishes them in ``mm2-configs.*``.

    mm2-command     {"command":"restart","task":"MirrorSourceConnector-0","asked":1763740800000}
    mm2-command     {"command":"refresh","asked":1763740800000}

They are of the moment: only who reads on in the topic when one comes carries it out. Java skips the key.
"""

from __future__ import annotations

import json

from mm2.core.commands import Refresh, RestartTask
from mm2.core.formats import FormatError

KEY = b"mm2-command"


def encode_command(command: Refresh | RestartTask, asked_ms: int) -> bytes:
    """The record's value. ``asked_ms``: epoch milliseconds of the leader's clock, for who reads the topic."""
    message: dict[str, str | int] = {"command": command.command}
    if isinstance(command, RestartTask):
        message["task"] = command.task
    return json.dumps(message | {"asked": asked_ms}, ensure_ascii=False, separators=(",", ":")).encode()


def decode_command(value: bytes | None) -> Refresh | RestartTask:
    """Raises FormatError."""
    try:
        message: object = json.loads((value or b"").decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"read command: {error}: {value!r:.200}") from None
    match message:
        case {"command": "restart", "task": str(task)}:
            return RestartTask(task=task)
        case {"command": "refresh"}:
            return Refresh()
    raise FormatError(f"read command: it is not one of this release: {value!r:.200}")
