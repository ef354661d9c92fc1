"""Timeouts and retry intervals of a source task and its partitions, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass

CORRUPT_ATTEMPTS = 3
"""A batch that arrives corrupt, or that the target rejects as corrupt, may have been damaged by the network: it fails
after this many attempts."""

PROBE_BYTES = 65_536
"""Fetch size to probe whether a target accepts batches again: one batch is enough."""

LONG_LINK_S = 0.02
"""A cluster with this round trip is far away. To a target, batches of 16 KiB, five in flight, would give 4 MB/s per
partition; from a source, responses of 1 MiB would give 50 MB/s for all partitions of a topic with one."""

TIMER_TOLERANCE_S = 0.001
"""An event loop's timer may fire this much early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """All in seconds, except ``stuck_share``. A source task passes one value to everything that it consists of."""

    stuck_after_s: float = 1.0
    """A partition whose batches have been rejected for this long by one leader releases its buffered bytes to the
    others, and fetches the batches again later. A leader change takes less than this."""

    stuck_share: float = 0.25
    """A partition that released its bytes fetches some again to probe the target, after this share of the time for
    which its leader has failed."""

    stuck_retry_s: float = 5.0
    """But at least this often. An attempt costs both clusters up to PROBE_BYTES."""

    failed_retry_s: float = 30.0
    """Retry interval of a FAILED partition: an operator may have raised max.message.bytes or granted a permission.
    Short enough to wait for after a repair, and long enough not to burden the brokers with a partition that stays
    broken."""

    missing_topic_s: float = 60.0
    """A partition fails if it has been unknown to the target for this long: Java's producer waits max.block.ms."""

    probe_after_s: float = 60.0
    """After this long without an acknowledgement the next batch is sent alone, in case the target has dropped our
    producer id (producer.id.expiration.ms, a day by default). One extra round trip per minute is negligible."""

    unanswered_report_s: float = 10.0
    """A broker of the source or target that has not answered for this long is reported. Restarts and leader changes
    take less time; and operators who watch the lag must not mistake an old value for a current one."""

    rejection_memory_s: float = 300.0
    """What a rejected batch taught about the target, its size limit or a codec it does not support, is forgotten after
    this long: max.message.bytes may have been raised, or the brokers upgraded. If nothing has changed, that costs one
    rejected request, after which the limit is read again."""

    loss_patience_s: float = 30.0
    """How long a loss that cannot be recorded holds back the source offsets after it under mm2.on.data.loss = continue:
    longer than the election of a leader, and short enough that a restart does not repeat much."""


TIMEOUTS = Timeouts()
