"""Which requests this process sends to brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from mm2.kafka.connection import Connection


@contextmanager
def sent_requests() -> Iterator[list[str]]:
    """Their kinds, as they go out; they do go out."""
    sent: list[str] = []
    send = Connection.send

    async def noting(self: Connection, request: Any, **options: Any) -> Any:
        sent.append(type(request).__name__.removeprefix("_"))
        return await send(self, request, **options)

    with patch.object(Connection, "send", noting):
        yield sent
