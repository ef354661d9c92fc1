"""Responses are read from a stream, however the network splits it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.kafka.connection.frames import AnswerCutter


def framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


@given(answers=st.lists(st.binary(max_size=40), max_size=8), data=st.data())
def test_responses_are_complete_and_in_order_however_they_are_split(answers: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(framed, answers))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    cutter = AnswerCutter()
    got: list[bytes] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if begin < end:
            got += cutter.feed(stream[begin:end])
        assert got == answers[: len(got)]
    assert got == answers
    assert cutter.wanted == 4


def test_each_response_is_delivered_with_its_last_byte() -> None:
    cutter = AnswerCutter()
    assert cutter.feed(framed(b"first") + framed(b"second")[:-1]) == [b"first"]
    assert cutter.wanted == len(b"second"), "what errors tell of a port that does not speak Kafka"
    assert cutter.feed(b"d") == [b"second"]


def test_an_invalid_length() -> None:
    with pytest.raises(ValueError, match="invalid response length -1"):
        AnswerCutter().feed(b"\xff\xff\xff\xff")
