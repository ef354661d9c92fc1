"""The shares of ``mm2.max.bytes.per.second``: how a flow's limit is divided between its source tasks.

The leader divides, and publishes the shares in ``mm2-configs.*``; Java skips this record:

    mm2-fetch-shares    {"limit":1000000,"shares":{"0":700000,"1":300000}}

A share belongs to a source task, wherever it runs. It moves with the task, so that none is lost when a node dies and
none is used twice. What the source tasks use is in their reports (`mm2.core.assignment.source_task_reports`).
Numbers are bytes per second, of batches as the source stores them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json

KEY = b"mm2-fetch-shares"

KEPT_PERCENT = 5
"""Percent of the limit that are divided by partitions, whatever is used: a source task that was idle can start to copy
at once, and by that shows that it needs more. More would be missing where one source task copies everything."""

HEADROOM_PERCENT = 10
"""What a source task gets beyond its use if it is not held up, so that small variations do not hold it up."""

HELD_UP_PERCENT = 10
"""Percent of the time for which a source task may wait for its share before it counts as held up: a burst ends soon."""

USED_UP_PERCENT = 97
"""Percent of its share from which on a source task counts as held up, even if it did not wait: the time between request
and response can be enough for the next share. Higher than what `HEADROOM_PERCENT` leaves in use, which is 91."""

CHANGE_PERCENT = 2
"""Percent of the limit by which a share has to change before the shares are published again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTotals:
    """What a source task with a limit has fetched since its lane started it: ``bytes`` of complete batches, and the
    seconds for which at least one of its brokers was not asked because of the limit."""

    bytes: int = 0
    limited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FetchUse:
    """How many bytes per second a source task fetches. ``is_held_up``: by its share, so that it can use more."""

    rate: int
    is_held_up: bool


IDLE = FetchUse(0, False)
HELD_UP = FetchUse(0, True)
"""The use of a source task about which nothing is known."""


@dataclass(frozen=True, slots=True)
class FetchShares:
    """The published shares by source task, and the limit that was divided."""

    limit: int
    shares: Mapping[int, int]


def use_of(before: FetchTotals, after: FetchTotals, seconds: float, share: int) -> FetchUse:
    """Return the use between two reports of a lane that are ``seconds`` apart, under this ``share``."""
    rate = round((after.bytes - before.bytes) / seconds)
    waited = (after.limited_s - before.limited_s) / seconds
    return FetchUse(rate, waited * 100 >= HELD_UP_PERCENT or rate * 100 >= share * USED_UP_PERCENT)


def divide(limit: int, partitions: Mapping[int, int], uses: Mapping[int, FetchUse]) -> FetchShares:
    """Divide a limit between source tasks. ``partitions``: their number of each; ``uses``: as far as known.

    (A) The sum of the shares is at most the limit, and less only by rounding, unless the limit is smaller than the
        number of source tasks.
    (B) Each source task with partitions has at least `KEPT_PERCENT` of what it would have by partitions, never 0.
    (C) A source task that is not held up keeps its use and `HEADROOM_PERCENT` more, as far as (D) permits.
    (D) Those that are held up, or about which nothing is known, divide the rest by partitions, so that no source task
        gets more for each partition than they do. Without uses, everything is divided by partitions.
    """
    weights = {one: count for one, count in partitions.items() if count > 0}
    if not weights:
        return FetchShares(limit, {})
    total = sum(weights.values())
    shares = {one: max(1, limit * KEPT_PERCENT * count // (100 * total)) for one, count in weights.items()}
    wanted: dict[int, int] = {}
    for one in weights:
        use = uses.get(one, HELD_UP)
        if not use.is_held_up:
            wanted[one] = max(shares[one], use.rate * (100 + HEADROOM_PERCENT) // 100)
    rest = limit - sum(shares.values())
    left = dict(weights)
    # those that want least for each partition first: what they do not want is left to the others
    for one in sorted(wanted, key=lambda one: (wanted[one] / weights[one], one)):
        more = min(wanted[one] - shares[one], max(0, rest) * weights[one] // sum(left.values()))
        shares[one] += more
        rest -= more
        del left[one]
    for one, count in (left or weights).items():
        shares[one] += max(0, rest) * count // sum((left or weights).values())
    return FetchShares(limit, shares)


def share_of(limit: int, source_task: int, partitions: Mapping[int, int], published: FetchShares | None) -> int:
    """Return the share of a source task under the ``limit`` in the node's own file.

    A source task without a published share has one by ``partitions``, the number of each source task. If the published
    shares are of another limit, the file of one of the nodes has changed: they are applied in proportion.
    """
    if published is not None and source_task in published.shares:
        return max(1, limit * published.shares[source_task] // published.limit)
    own = max(1, partitions.get(source_task, 1))
    return max(1, limit * own // max(own, sum(partitions.values())))


def differs(before: FetchShares | None, after: FetchShares) -> bool:
    """Return whether the shares have changed so much that they are to be published again."""
    if before is None or before.limit != after.limit or before.shares.keys() != after.shares.keys():
        return True
    least = max(1, after.limit * CHANGE_PERCENT // 100)
    return any(abs(before.shares[one] - share) >= least for one, share in after.shares.items())


def encode_shares(published: FetchShares) -> bytes:
    """Return the record's value."""
    shares = {str(one): share for one, share in sorted(published.shares.items())}
    return json.dumps({"limit": published.limit, "shares": shares}, separators=(",", ":")).encode()


def decode_shares(value: bytes | None) -> FetchShares | None:
    """Read the record's value; None: the flow has no limit. Raises FormatError."""
    if value is None:
        return None
    try:
        message = decode_json(value, "fetch shares")
        limit = as_int(message["limit"])
        shares = {int(one): as_int(share) for one, share in message["shares"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"cannot read fetch shares: {error!r}: {value!r:.200}") from None
    if limit < 1:
        raise FormatError(f"cannot read fetch shares: the limit is not positive: {value!r:.200}")
    return FetchShares(limit, shares)
