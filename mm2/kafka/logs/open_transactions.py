"""Transactions of which neither the commit nor the abort was read yet."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.kafka.logs.stored_records import Ended, StoredRecord, Written


class OpenTransactions:
    """The open transactions of one partition, by producer ID.

    A fetch with read_committed returns nothing behind the first open transaction: the producer of one hides what others
    have committed after it. Here, a transaction becomes visible with its own commit, and so do records outside
    transactions.
    """

    def __init__(self) -> None:
        self._records: dict[int, list[StoredRecord]] = {}

    def visible(self, batches: Iterable[Written | Ended]) -> list[StoredRecord]:
        """Return the records that the next batches of the partition make visible."""
        found: list[StoredRecord] = []
        for one in batches:
            if isinstance(one, Ended):
                records = self._records.pop(one.transaction_of, [])
                if one.committed:
                    found += records
            elif one.transaction_of is None:
                found += one.records
            else:
                self._records.setdefault(one.transaction_of, []).extend(one.records)
        return found
