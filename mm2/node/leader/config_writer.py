"""The writer of a flow's leader to ``mm2-configs.<source>.internal``, fenced by the broker after a leader change.

It also writes where partitions start, which must not overwrite what lanes have stored under a later leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError, NotSupported, RequestTimedOut
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.transactional_writer import TransactionalWriter
from mm2.kafka.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_PARTITION = 0  # the topic has one partition
NO_COORDINATOR_MS = 15_000  # longer than the move of a coordinator; then we write without transactions
_PLAIN_MS = 30_000  # the timeout of writes without transactions, the same as for a transaction
_DENIED = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

Records = Sequence[tuple[bytes, bytes | None]]


class TransactionsRequiredError(ClusterError):
    """The cluster does not allow transactions, although they are required. The text contains the fix."""


class ConfigWriter:
    """Writes in transactions with the transactional id of Java's leader (KIP-618), so that a replaced leader is fenced.

    If the cluster does not allow that, records are written without transactions, and ``warning`` is why and how to fix
    it. Every ``put`` then checks once whether transactions have become possible.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        transactional_id: str,
        *,
        purpose: str = "config writes",
        required_by: str | None = None,
        no_coordinator_ms: int = NO_COORDINATOR_MS,
    ) -> None:
        """``no_coordinator_ms``: how long `begin` waits for a coordinator of transactions.

        ``required_by``: the setting that requires transactions, such as ``B.exactly.once.source.support =
        preparing``. All methods then raise TransactionsRequiredError instead of writing without them."""
        self._cluster = cluster
        self._required_by = required_by
        self._no_coordinator_ms = no_coordinator_ms
        self._topic = topic
        self._id = transactional_id
        self._purpose = purpose
        self._writer = TransactionalWriter(cluster, transactional_id, purpose=purpose)
        self.warning: str | None = None

    async def begin(self) -> None:
        """Fence earlier leaders, at the start of every term as leader. Raises ClusterError."""
        try:
            await self._writer.begin(timeout_ms=self._no_coordinator_ms)
        except ClusterError as error:
            if _code(error) == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._warn(
                    error,
                    "check that the cluster has at least as many brokers as transaction.state.log.replication.factor",
                )
            else:
                self._write_plainly(error)
        else:
            self.warning = None

    async def put(self, records: Records, to: TopicPartition | None = None) -> None:
        """Store these records (key, value), atomically if ``warning`` is None. ``to``: not in the config topic, but in
        this partition.

        Raises Fenced after a leader change, BrokerError if the broker rejects a record, and other ClusterErrors.
        """
        if not records:
            return
        place = TopicPartition(self._topic, _PARTITION) if to is None else to
        try:
            if self.warning is not None:
                await self._retry_transactions()
            if self.warning is None:
                try:
                    await self._writer.write(place.topic, place.partition, records)
                except ClusterError as error:
                    self._write_plainly(error)
                else:
                    return
            await self._put_plainly(records, place)
        except BrokerError as error:
            if error.code in _TOO_LARGE:
                raise BrokerError(error.code, error.what, _too_large(records, place.topic)) from error
            raise

    def _write_plainly(self, error: ClusterError) -> None:
        """Warn and write without transactions if this error requires it; otherwise raise the error."""
        if isinstance(error, NotSupported):
            self._warn(error, "upgrade the brokers")
        elif _code(error) in _DENIED:
            self._warn(error, f"grant the node's principal WRITE on transactional id {self._id}")
        else:
            raise error

    def _warn(self, error: ClusterError, advice: str) -> None:
        if self._required_by is not None:
            raise TransactionsRequiredError(
                f"cannot write {self._topic} in transactions, which {self._required_by} requires: {error}; {advice}"
            ) from error
        self.warning = (
            f"cannot write {self._topic} in transactions: {error}; writing without transactions, so a replaced leader "
            f"is not fenced; {advice}"
        )
        log.warning("%s", self.warning)

    async def _retry_transactions(self) -> None:
        try:
            await self._writer.begin(timeout_ms=0)
        except ClusterError as error:
            log.debug("still writing %s without transactions: %s", self._topic, error)
        else:
            log.info("now writing %s in transactions", self._topic)
            self.warning = None

    async def _put_plainly(self, records: Records, place: TopicPartition) -> None:
        # a producer per call, so idempotence would not order the records of different calls
        async with ControlProducer(self._cluster, purpose=self._purpose, idempotent=False) as producer:
            stored = [producer.send(place.topic, place.partition, key, value) for key, value in records]
            if not await producer.flush(_PLAIN_MS / 1000):
                raise producer.last_error or RequestTimedOut(
                    f"write to {place}: not acknowledged within {_PLAIN_MS // 1000} s"
                )
            await asyncio.gather(*stored)


def _code(error: ClusterError) -> int | None:
    return error.code if isinstance(error, BrokerError) else None


def _too_large(records: Records, topic: str) -> str:
    key, size = max(((key, len(key) + len(value or b"")) for key, value in records), key=lambda pair: pair[1])
    return (
        f"the largest record, {key.decode(errors='replace')}, has {size} bytes, more than max.message.bytes of {topic} "
        "or message.max.bytes of the broker allows; increase that limit"
    )
