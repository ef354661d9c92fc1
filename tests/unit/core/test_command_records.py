from __future__ import annotations

import pytest

from mm2.core.command_records import decode_command, encode_command
from mm2.core.commands import Refresh, RestartTask
from mm2.core.formats import FormatError

RESTART = RestartTask(task="MirrorSourceConnector-0")


def test_what_is_written() -> None:
    assert encode_command(RESTART, 1) == b'{"command":"restart","task":"MirrorSourceConnector-0","asked":1}'
    assert encode_command(Refresh(), 2) == b'{"command":"refresh","asked":2}'
    assert decode_command(encode_command(RESTART, 1)) == RESTART
    assert decode_command(encode_command(Refresh(), 1)) == Refresh()


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
def test_what_cannot_be_read(value: bytes | None) -> None:
    with pytest.raises(FormatError, match="read command"):
        decode_command(value)
