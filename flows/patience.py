"""How long things are waited for, and how often they are tried again, with reasons."""

from __future__ import annotations

STUCK_AFTER_S = 1.0
"""A partition that has been refused for so long gives its waiting bytes back to the others; it fetches them again when
the target takes it. A leader change takes less than this."""

STUCK_RETRY_S = 5.0
"""A partition that gave its bytes back fetches some again, to see whether the target takes them, after a quarter of the
time it has been stuck, but at least this often. An attempt costs both ends up to PROBE_BYTES."""

FAILED_RETRY_S = 30.0
"""How often a FAILED partition is tried again: somebody may have raised max.message.bytes or granted a permission.
Often enough to wait for after a repair, rare enough not to burden the brokers with a partition that stays broken."""

MISSING_PATIENCE_S = 60.0
"""How long the target may not know a remote partition before it is FAILED: Java's producer waits max.block.ms."""

CORRUPT_ATTEMPTS = 3
"""A batch that arrives damaged, or that the target calls so, may be so by the network: this many attempts tell."""

DOUBT_AFTER_S = 60.0
"""After so long without an acknowledgement the next batch goes alone, in case the target forgot our producer id
(producer.id.expiration.ms, a day by default); one round trip a minute costs nothing."""

PROBE_BYTES = 65_536
"""What is fetched to find out whether a target that refused takes something again: one batch is enough."""

LONG_LINK_S = 0.05
"""A target whose quickest acknowledgements take this long is far away: batches of 16 KiB, five in flight, would give
1.6 MB/s a partition. (The quickest, because a busy machine delays others.)"""

EARLY_S = 0.001
"""An event loop's timer may ring that much before its time."""

SILENT_S = 10.0
"""After so long without an answer a broker is told of, of the source or of the target: a broker that restarts, or hands
over its partitions, is back sooner, and whoever looks at the lag must not take what was true then for what is."""
