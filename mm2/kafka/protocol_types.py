"""Field types of Kafka's protocol that aiokafka's set lacks."""

from __future__ import annotations

from io import BytesIO
from uuid import UUID

from aiokafka.protocol.abstract import AbstractType


class Uuid(AbstractType):  # type: ignore[misc]
    """16 bytes, most significant first; the zero UUID stands for "none"."""

    @classmethod
    def encode(cls, value: UUID | None) -> bytes:
        return value.bytes if value is not None else bytes(16)

    @classmethod
    def decode(cls, data: BytesIO) -> UUID | None:
        raw = data.read(16)
        return UUID(bytes=raw) if any(raw) else None
