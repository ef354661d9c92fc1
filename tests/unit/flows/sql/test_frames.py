"""Frames on the socket between the two workers of a SQL lane."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from flows.sql.frames import Frame, lead, read_frame

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_frames_are_read_in_order(pair: Pair) -> None:
    ours, theirs = pair
    ours.sendall(lead(1, 2**40, "größe", 3, 5) + b"bytes" + lead(2, 0, "t", 0, 0))
    ours.close()
    assert read_frame(theirs) == Frame(1, 2**40, "größe", 3, b"bytes")
    assert read_frame(theirs) == Frame(2, 0, "t", 0, b"")
    assert read_frame(theirs) is None


@pytest.mark.parametrize("count", [5, 27, 30])
def test_a_connection_that_is_closed_inside_a_frame(pair: Pair, count: int) -> None:
    ours, theirs = pair
    ours.sendall((lead(1, 0, "topic", 0, 5) + b"bytes")[:count])
    ours.close()
    assert read_frame(theirs) is None
