"""Answers too large to be decoded in one go: aiokafka's structs would stop the event loop for seconds."""

from __future__ import annotations

from io import BytesIO
from typing import Self

from aiokafka.protocol.api import Response
from aiokafka.protocol.types import Schema


class UndecodedAnswer(Response):  # type: ignore[misc]
    """An answer kept as bytes, for an `AnswerReader`. Subclasses name its API and version."""

    API_KEY = -1
    API_VERSION = -1
    SCHEMA = Schema()

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body

    @classmethod
    def decode(cls, data: BytesIO) -> Self:
        return cls(data.read())
