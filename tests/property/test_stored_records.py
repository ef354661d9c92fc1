"""Reading a partition in fetches of any size returns every visible record, once and in order.

The oracle keeps, while the log is being written, a list of the outcome of every record's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.naming.names import TopicPartition
from mm2.kafka.logs.stored_records import decode
from tests.unit.kafka.batches import batch, control_batch

PARTITION = TopicPartition("log", 0)
PRODUCERS = (1, 2, 3)


@dataclass
class Log:
    """What a broker stores, and what a reader should receive."""

    end: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # first and last offset, bytes
    written: list[tuple[int, int]] = field(default_factory=list)  # offset, number of its transaction (-1: none)
    open_since: dict[int, tuple[int, int]] = field(default_factory=dict)  # producer: first offset, transaction
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)  # producer, first, last, transaction
    transactions: int = 0

    def plain(self, count: int, hole: int) -> None:
        self._append(count, -1, -1, hole)

    def in_transaction(self, producer: int, count: int, hole: int) -> None:
        if producer not in self.open_since:
            self.transactions += 1
            self.open_since[producer] = (self.end + hole, self.transactions)
        self._append(count, producer, self.open_since[producer][1], hole)

    def finish(self, producer: int, *, commit: bool) -> None:
        if producer in self.open_since:
            first, transaction = self.open_since.pop(producer)
            if not commit:
                self.aborted.append((producer, first, self.end, transaction))
            self.batches.append((self.end, self.end, control_batch(self.end, producer=producer, commit=commit)))
            self.end += 1

    def _append(self, count: int, producer: int, transaction: int, hole: int) -> None:
        self.end += hole  # removed by compaction
        raw = batch(self.end, [b"%d" % (self.end + n) for n in range(count)], producer=producer)
        self.batches.append((self.end, self.end + count - 1, raw))
        self.written += [(self.end + n, transaction) for n in range(count)]
        self.end += count

    def visible(self, *, committed_only: bool) -> list[int]:
        dropped = {transaction for *_, transaction in self.aborted} if committed_only else set()
        return [offset for offset, transaction in self.written if transaction not in dropped]

    def fetch(self, position: int, batches: int, cut: int) -> tuple[bytes, list[tuple[int, int]]]:
        """Return up to ``batches`` batches from the one that contains ``position``, and the first bytes of the next."""
        rest = [one for one in self.batches if one[1] >= position]
        taken = rest[:batches]
        upto = taken[-1][1] if taken else position
        raw = b"".join(one[2] for one in taken) + (rest[batches][2][:cut] if len(rest) > batches else b"")
        overlapping = [
            (producer, first) for producer, first, last, _ in self.aborted if last >= position and first <= upto
        ]
        return raw, overlapping


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log()
    holes = st.sampled_from([0, 0, 0, 1, 7])
    for _ in range(draw(st.integers(0, 25))):
        producer, count, hole = draw(st.sampled_from(PRODUCERS)), draw(st.integers(1, 3)), draw(holes)
        match draw(st.integers(0, 3)):
            case 0:
                log.plain(count, hole)
            case 1 | 2:
                log.in_transaction(producer, count, hole)
            case _:
                log.finish(producer, commit=draw(st.booleans()))
    for producer in PRODUCERS:  # only finished transactions are below the last stable offset
        log.finish(producer, commit=draw(st.booleans()))
    return log


@given(log=logs(), committed_only=st.booleans(), data=st.data())
def test_fetches_of_any_size_return_all_records(log: Log, committed_only: bool, data: st.DataObject) -> None:
    position, seen = 0, []
    while position < log.end:
        raw, aborted = log.fetch(position, data.draw(st.integers(1, 4)), data.draw(st.integers(0, 40)))
        records, after = decode(raw, PARTITION, position, aborted=aborted, committed_only=committed_only)
        seen += [record.offset for record in records]
        assert all(record.value == b"%d" % record.offset for record in records)
        assert after > position
        position = after
    assert seen == log.visible(committed_only=committed_only)
    assert position == log.end


@given(log=logs(), data=st.data())
def test_reading_can_start_at_any_offset(log: Log, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, log.end))
    raw, aborted = log.fetch(begin, len(log.batches), 0)
    records, _ = decode(raw, PARTITION, begin, aborted=aborted, committed_only=True)
    assert [one.offset for one in records] == [one for one in log.visible(committed_only=True) if one >= begin]
