from __future__ import annotations

import pytest

from mm2.core.coordination.command_records import decode_command, encode_command
from mm2.core.wire.formats import FormatError
from mm2.node.commands.refresh import Refresh
from mm2.node.commands.registry import command_types
from mm2.node.commands.restart import RestartTask

TYPES = command_types()
RESTART = RestartTask(task="MirrorSourceConnector-0")


def test_encoded_record() -> None:
    assert encode_command(RESTART, 1) == b'{"command":"restart","task":"MirrorSourceConnector-0","asked":1}'
    assert encode_command(Refresh(), 2) == b'{"command":"refresh","asked":2}'
    assert decode_command(encode_command(RESTART, 1), TYPES) == RESTART
    assert decode_command(encode_command(Refresh(), 1), TYPES) == Refresh()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"command":"restart"}',
        b'{"command":"restart","task":0}',
        b'{"command":"rewind","task":"MirrorSourceConnector-0"}',
    ],
)
def test_invalid_records(value: bytes | None) -> None:
    with pytest.raises(FormatError, match="read command"):
        decode_command(value, TYPES)
