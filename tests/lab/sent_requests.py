"""Which requests this process sends to brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from mm2.kafka.connection.connection import Connection


@contextmanager
def sent_requests() -> Iterator[list[str]]:
    """Record the kinds of requests as they are sent; they are still sent."""
    sent: list[str] = []
    with _noting(lambda _, kind: sent.append(kind)):
        yield sent


@contextmanager
def sent_by_connection() -> Iterator[dict[Connection, set[str]]]:
    """Record which kinds of requests each connection sends: a broker answers them one after the other."""
    sent: dict[Connection, set[str]] = defaultdict(set)
    with _noting(lambda connection, kind: sent[connection].add(kind)):
        yield sent


@contextmanager
def _noting(note: Callable[[Connection, str], None]) -> Iterator[None]:
    send = Connection.send

    async def noting(self: Connection, request: Any, **options: Any) -> Any:
        note(self, type(request).__name__.removeprefix("_"))
        return await send(self, request, **options)

    with patch.object(Connection, "send", noting):
        yield
