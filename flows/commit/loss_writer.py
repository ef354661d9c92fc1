"""Losses: the source records that can no longer be copied, recorded before an offset after them is stored."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial

from flows.partition.timeouts import TIMEOUTS
from mm2.core.lanes.lease import LossesLease
from mm2.core.lanes.losses import (
    LOSSES_KEPT,
    PARTITION,
    Loss,
    LossKey,
    LossKind,
    OnDataLoss,
    encode_loss,
    encode_loss_key,
)
from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger(__name__)


MOST_UNWRITTEN = 10_000
"""Losses kept until they can be recorded: about 5 MB."""


@dataclass(slots=True)
class _Unwritten:
    loss: Loss
    since: float
    written: asyncio.Future[int] | None = None


class LossWriter:
    """Records the losses of a source task, and keeps the newest ones for its reports.

    (A) A source offset after a loss is stored only when the loss is recorded, so that a restart notices it again. If
        the topic cannot be written, copying continues, but no offset after the loss is stored. Under
        mm2.on.data.loss = continue that ends after `Timeouts.loss_patience_s`: a broken topic of ours must not repeat
        more and more records after a restart. Under the other values it does not end.
    (B) A loss that is not recorded stays in memory, with a warning, and is sent again by each `write`. When more than
        `MOST_UNWRITTEN` wait, the oldest are dropped; the node has logged each of them.
    (C) A loss with the same key replaces the earlier one, but for the time when it was noticed.
    """

    def __init__(
        self,
        producer: ControlProducer | None,
        lease: LossesLease | None,
        *,
        patience_s: float = TIMEOUTS.loss_patience_s,
    ) -> None:
        """None: losses are kept for reports only, as for MirrorMaker 1, whose offsets are those of a group."""
        self._patience_s = patience_s
        self._producer = producer
        self._topic = lease.topic if lease is not None else ""
        self._waits_forever = lease is not None and lease.on_data_loss is not OnDataLoss.CONTINUE
        self._newest: dict[LossKey, Loss] = {}
        self._unwritten: dict[LossKey, _Unwritten] = {}
        self._holding: defaultdict[TopicPartition, dict[LossKey, _Unwritten]] = defaultdict(dict)  # the same
        self._logged: str | None = None

    @property
    def newest(self) -> tuple[Loss, ...]:
        """At most `LOSSES_KEPT` losses, the newest last."""
        return tuple(self._newest.values())

    @property
    def warning(self) -> str | None:
        """Why losses are not recorded yet."""
        return self._logged

    def lost(self, loss: Loss) -> None:
        """Record a loss, or the new extent of one, and send it. It keeps the time when it was noticed first."""
        known = self._newest.pop(loss.key, loss)
        noticed = next((one.time for one in (loss, known) if one.time is not None), time.time_ns() // 1_000_000)
        loss = replace(loss, time=noticed)
        self._newest[loss.key] = loss
        if len(self._newest) > LOSSES_KEPT:
            del self._newest[next(iter(self._newest))]
        if self._producer is None:
            return
        before = self._remove(loss.key)
        since = time.monotonic() if before is None else before.since
        one = self._unwritten[loss.key] = self._holding[_partition(loss.key)][loss.key] = _Unwritten(loss, since)
        if len(self._unwritten) > MOST_UNWRITTEN:
            self._remove(next(iter(self._unwritten)))
        self._send(one)

    def holds_back(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether source offset ``offset`` must not be stored yet, by (A).

        ``offset`` below 0: the beginning of a recreated topic. After a truncation the offset is before the loss, which
        would not be noticed again there.
        """
        if partition not in self._holding:
            return False
        now = time.monotonic()
        return any(
            (offset < 0 or offset >= one.loss.first or one.loss.kind == LossKind.TRUNCATED)
            and (self._waits_forever or now - one.since < self._patience_s)
            for one in self._holding[partition].values()
        )

    def write(self) -> None:
        """Send the losses that are neither recorded nor in flight."""
        for one in list(self._unwritten.values()):
            if one.written is None and not self._send(one):
                break

    def _send(self, one: _Unwritten) -> bool:
        """Send a loss; return False if that is not possible now."""
        if self._producer is None:
            return False
        try:
            one.written = self._producer.send(self._topic, PARTITION, encode_loss_key(one.loss), encode_loss(one.loss))
        except ClusterError as error:
            self._failed(str(error))
            return False
        one.written.add_done_callback(partial(self._written, one))
        return True

    def _remove(self, key: LossKey) -> _Unwritten | None:
        holding = self._holding[_partition(key)]
        holding.pop(key, None)
        if not holding:
            del self._holding[_partition(key)]
        return self._unwritten.pop(key, None)

    async def wait(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds until what was sent is written.

        After a failure, further calls return immediately until everything is written: a missing topic must not delay
        every commit of source offsets.
        """
        sent = [one.written for one in self._unwritten.values() if one.written is not None]
        if sent and self._logged is None:
            _, late = await asyncio.wait(sent, timeout=timeout)
            if late and self._producer is not None:
                self._failed(str(self._producer.last_error or f"not written within {timeout:.0f} s"))

    def _written(self, one: _Unwritten, done: asyncio.Future[int]) -> None:
        one.written = None
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or isinstance(error, ClusterClosed):
            return
        if error is not None:
            self._failed(str(error))
            return
        if self._unwritten.get(one.loss.key) is one:
            self._remove(one.loss.key)
        if self._logged is not None and not self._unwritten:
            log.info("losses are recorded in %s again", self._topic)
            self._logged = None

    def _failed(self, reason: str) -> None:
        consequence = (
            "no offset after them is stored, so that a restart repeats records"
            if self._waits_forever
            else f"source offsets after them are stored {self._patience_s:.0f} s later"
        )
        message = (
            f"cannot record losses in {self._topic}: {reason}; they are kept in memory and retried, copying continues,"
            f" and {consequence}"
        )
        if message != self._logged:
            log.debug("%s", message)  # the node logs it, as a warning
        self._logged = message


def _partition(key: LossKey) -> TopicPartition:
    topic, partition, *_ = key
    return TopicPartition(topic, partition)
