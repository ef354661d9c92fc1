"""Connections that need a ticket or token at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from tests.lab.waiting import wait_until


class Answering(Protocol):
    """What is asked for tickets or tokens: counts requests, and answers while ``may_answer`` is set."""

    requests: int
    may_answer: threading.Event


def renew_in_threads(renew: Callable[[], None], asked: Answering, *, threads: int) -> None:
    """Call ``renew`` in threads, of which one sends a request; answer it, and wait for all of them."""
    asked.may_answer.clear()
    connections = [threading.Thread(target=renew) for _ in range(threads)]
    for one in connections:
        one.start()
    wait_until(lambda: asked.requests == 1, 10, "one request arrives")
    asked.may_answer.set()
    for one in connections:
        one.join()
