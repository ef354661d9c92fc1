"""From a fetch answer to the batches that are to be copied."""

from __future__ import annotations

from dataclasses import dataclass, field

from flows.aborted import AbortedTransactions
from flows.batch.header import CorruptBatchError, OldFormatError, batches
from flows.batch.outgoing import SourceBatch
from mm2.kafka.raw_fetch import FetchedPartition

BATCH_OVERHEAD = 700
"""Bytes of Python objects for a waiting batch, beside its own: header 400, view 200, the rest. For tiny batches that is
most of what they take."""


@dataclass(slots=True, kw_only=True)
class Intake:
    """What one answer brought. ``next_offset`` is where the next fetch goes on; ``trouble`` is what is wrong there.

    ``skipped`` are batches without data in front of the first one with data: offset after them, None if there are none.
    """

    next_offset: int
    batches: list[SourceBatch] = field(default_factory=list)
    skipped: int | None = None
    trouble: CorruptBatchError | OldFormatError | None = None


def take_in(fetched: FetchedPartition, wanted: int, *, check_crcs: bool, arrived: float) -> Intake:
    """Read the batches from source offset ``wanted`` on, leave out markers, aborted and empty ones.

    The last batch holds the bytes of all: they are one piece of memory, freed with it. Our own objects are counted too.
    """
    intake = Intake(next_offset=wanted)
    transactions = AbortedTransactions(fetched.aborted)
    taken = intake.batches
    try:
        for header, data in batches(fetched.records, check_crcs=check_crcs):
            carries_data = transactions.carries_data(header, data)
            until = header.next_offset
            if until <= wanted:
                continue
            intake.next_offset = until
            if carries_data:
                taken.append(SourceBatch(header, data, until, 0, arrived))
            elif taken:
                taken[-1].until = until
            else:
                intake.skipped = until
    except (CorruptBatchError, OldFormatError) as trouble:
        intake.trouble = trouble
    if taken:
        taken[-1].held = len(fetched.records) + BATCH_OVERHEAD * len(taken)
    return intake
