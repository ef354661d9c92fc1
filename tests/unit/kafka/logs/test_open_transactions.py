"""Records become visible with the commit of their own transaction."""

from __future__ import annotations

from mm2.core.naming.names import TopicPartition
from mm2.kafka.logs.record_fetch import OpenTransactions
from mm2.kafka.logs.stored_records import Ended, read_batches
from tests.unit.kafka.batches import batch, control_batch


def visible(transactions: OpenTransactions, log: bytes, position: int = 0) -> tuple[list[bytes | None], int]:
    found, position = read_batches(log, TopicPartition("log", 3), position)
    return [record.value for record in transactions.visible(found)], position


def test_an_open_transaction_does_not_hide_others() -> None:
    transactions = OpenTransactions()
    log = (
        batch(0, [b"open"], producer=1)
        + batch(1, [b"committed"], producer=2)
        + batch(2, [b"plain"])
        + control_batch(3, producer=2, commit=True)
        + batch(4, [b"aborted"], producer=3)
        + control_batch(5, producer=3, commit=False)
    )
    assert visible(transactions, log) == ([b"plain", b"committed"], 6)
    later = batch(6, [b"open too"], producer=1) + control_batch(7, producer=1, commit=True)
    assert visible(transactions, later, 6) == ([b"open", b"open too"], 8)
    assert visible(transactions, control_batch(8, producer=1, commit=True), 8) == ([], 9)


def test_a_plain_batch_of_a_transactional_producer_is_visible() -> None:
    assert visible(OpenTransactions(), batch(0, [b"plain"], producer=1, transactional=False)) == ([b"plain"], 1)


def test_a_marker_that_was_compacted_away_ends_its_transaction() -> None:
    transactions = OpenTransactions()
    (written,), _ = read_batches(batch(0, [b"a"], producer=7), TopicPartition("log", 3), 0)
    assert transactions.visible([written, Ended(7, 2, None), Ended(7, 3, True)]) == []
