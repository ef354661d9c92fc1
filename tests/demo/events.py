"""The records of a small shop: orders, payments, clicks and stock levels."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.demo import queried
from tests.lab.records import Outgoing

CUSTOMERS = 5_000
ARTICLES = 800
PAGES = ("/", "/search", "/cart", "/checkout", "/article/", "/help")
MONEY = ("EUR", "USD", "GBP")
DISCONTINUED = 0.02  # of the stock records are tombstones


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One topic and its records: ``rate`` records per second, compressed with ``codec``.

    ``query`` is the name of the query that they pass through; None: they are copied as they are.
    """

    topic: str
    partitions: int
    codec: str
    rate: int
    event: Callable[[random.Random, int], Outgoing]
    config: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None


def order(rng: random.Random, number: int) -> Outgoing:
    """Return an order, keyed by customer, so that the orders of a customer keep their sequence."""
    customer = rng.randrange(CUSTOMERS)
    items = [
        {"article": rng.randrange(ARTICLES), "quantity": rng.randint(1, 4), "cents": rng.randint(99, 19_900)}
        for _ in range(rng.randint(1, 5))
    ]
    total = sum(item["quantity"] * item["cents"] for item in items)
    body = {"order": number, "customer": customer, "currency": rng.choice(MONEY), "total": total, "items": items}
    trace = rng.randbytes(8).hex().encode()
    return _event(f"customer-{customer}", body, (("trace-id", trace), ("origin", rng.choice((b"web", b"app")))))


def payment(rng: random.Random, number: int) -> Outgoing:
    """Return a payment of an order; its signature is random, so that no codec can compress it."""
    state = rng.choices(("authorized", "captured", "refused"), (70, 25, 5))[0]
    body = {"payment": number, "order": number, "state": state, "signature": rng.randbytes(64).hex()}
    return _event(f"order-{number}", body, (("schema", b"payment-2"),))


def card_payment(rng: random.Random, number: int) -> Outgoing:
    """Return a payment with its card number; some are payments of test orders."""
    card = "".join(rng.choices("0123456789", k=queried.CARD_DIGITS))
    body = {"payment": number, "order": number, "test": rng.random() < queried.TEST_ORDERS, "card": card}
    return _event(f"order-{number}", body, (("schema", b"payment-3"),))


def click(rng: random.Random, number: int) -> Outgoing:
    """Return a page view; two of three visitors are unknown, and their records have no key."""
    visitor = f"customer-{rng.randrange(CUSTOMERS)}" if rng.random() < 1 / 3 else None
    page = rng.choice(PAGES)
    body = {"click": number, "page": page + str(rng.randrange(ARTICLES)) if page.endswith("e/") else page}
    return _event(visitor, body)


def stock(rng: random.Random, number: int) -> Outgoing:
    """Return the stock level of an article; a tombstone if it is discontinued."""
    article = f"article-{rng.randrange(ARTICLES)}"
    if rng.random() < DISCONTINUED:
        return Outgoing(key=article.encode(), value=None)
    return _event(article, {"article": article, "level": rng.randint(0, 500), "change": number})


STREAMS = (
    Stream(topic="orders", partitions=3, codec="lz4", rate=600, event=order),
    Stream(topic="payments", partitions=3, codec="none", rate=400, event=payment),
    Stream(topic="clicks", partitions=6, codec="zstd", rate=800, event=click),
    Stream(
        topic="inventory",
        partitions=2,
        codec="snappy",
        rate=200,
        event=stock,
        config={"cleanup.policy": "compact"},
    ),
)


def streams(*, sql: bool) -> tuple[Stream, ...]:
    """Return all streams; with ``sql`` payments contain card numbers, and pass through a query."""
    if not sql:
        return STREAMS
    return tuple(
        replace(one, event=card_payment, query=queried.NAME) if one.topic == queried.TOPIC else one for one in STREAMS
    )


def _event(key: str | None, body: object, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Outgoing:
    return Outgoing(key=None if key is None else key.encode(), value=queried.as_json(body), headers=headers)
