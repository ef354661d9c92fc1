"""Answers are cut out of a stream as Kafka writes them, however the network cuts it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.kafka.frames import AnswerCutter


def framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


@given(answers=st.lists(st.binary(max_size=40), max_size=8), data=st.data())
def test_answers_come_whole_and_in_order_whatever_pieces_they_arrive_in(
    answers: list[bytes], data: st.DataObject
) -> None:
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


def test_each_answer_is_given_out_with_its_last_byte() -> None:
    cutter = AnswerCutter()
    assert cutter.feed(framed(b"first") + framed(b"second")[:-1]) == [b"first"]
    assert cutter.wanted == len(b"second"), "what errors tell of a port that does not speak Kafka"
    assert cutter.feed(b"d") == [b"second"]


def test_a_length_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="an answer of -1 bytes"):
        AnswerCutter().feed(b"\xff\xff\xff\xff")
