"""What a flow's leader writes into ``mm2-configs.<source>.internal``, refused by the broker once another leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterError, NotSupported, RequestTimedOut
from mm2.kafka.transactional_writer import TransactionalWriter

log = logging.getLogger(__name__)

_PARTITION = 0  # the topic has one
_NO_COORDINATOR_MS = 15_000  # a coordinator that moves is back sooner; a cluster that never has one delays us by this
_PLAIN_MS = 30_000  # to store plain records: as long as a transaction tries
_DENIED = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

Records = Sequence[tuple[bytes, bytes | None]]


class ConfigWriter:
    """Transactional writes under the id that Java's leader uses (mm2-compat §2), so that a leader that was replaced
    cannot write; plain ones, and a ``warning`` that says what to grant, where the cluster does not let us.

    While plain, every ``put`` looks once whether transactions are possible by now.
    """

    def __init__(self, cluster: Cluster, topic: str, transactional_id: str, *, purpose: str = "configs") -> None:
        self._cluster = cluster
        self._topic = topic
        self._id = transactional_id
        self._purpose = purpose
        self._writer = TransactionalWriter(cluster, transactional_id, purpose=purpose)
        self.warning: str | None = None

    async def begin(self) -> None:
        """At the start of every term as leader: predecessors are refused from now on. Raises ClusterError."""
        try:
            await self._writer.begin(timeout_ms=_NO_COORDINATOR_MS)
        except ClusterError as error:
            if _code(error) == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._warn(
                    error,
                    "has the cluster fewer brokers than its transaction.state.log.replication.factor asks for?",
                )
            else:
                self._write_plainly(error)
        else:
            self.warning = None

    async def put(self, records: Records) -> None:
        """Store these records (key, value), all or none of them if ``warning`` is None.

        Raises Fenced when another has begun since, BrokerError for what the broker refuses, other ClusterErrors.
        """
        if not records:
            return
        try:
            if self.warning is not None:
                await self._look_again()
            if self.warning is None:
                try:
                    await self._writer.write(self._topic, _PARTITION, records)
                except ClusterError as error:
                    self._write_plainly(error)
                else:
                    return
            await self._put_plainly(records)
        except BrokerError as error:
            if error.code in _TOO_LARGE:
                raise BrokerError(error.code, error.what, _too_large(records, self._topic)) from error
            raise

    def _write_plainly(self, error: ClusterError) -> None:
        """Warn if that is the way to go on after this error. Raises it otherwise."""
        if isinstance(error, NotSupported):
            self._warn(error, "upgrade the brokers")
        elif _code(error) in _DENIED:
            self._warn(error, f"grant our principal Write and Describe on transactional id {self._id}")
        else:
            raise error

    def _warn(self, error: ClusterError, advice: str) -> None:
        self.warning = (
            f"cannot write {self._topic} in transactions: {error}; writing without them, and the broker will not "
            f"refuse a leader that was replaced; {advice}"
        )
        log.warning("%s", self.warning)

    async def _look_again(self) -> None:
        try:
            await self._writer.begin(timeout_ms=0)
        except ClusterError as error:
            log.debug("still writing %s without transactions: %s", self._topic, error)
        else:
            log.info("writing %s in transactions from now on", self._topic)
            self.warning = None

    async def _put_plainly(self, records: Records) -> None:
        async with ControlProducer(self._cluster, purpose=self._purpose) as producer:
            stored = [producer.send(self._topic, _PARTITION, key, value) for key, value in records]
            if not await producer.flush(_PLAIN_MS / 1000):
                raise producer.trouble or RequestTimedOut(
                    f"write to {self._topic}: not stored within {_PLAIN_MS // 1000} s"
                )
            await asyncio.gather(*stored)


def _code(error: ClusterError) -> int | None:
    return error.code if isinstance(error, BrokerError) else None


def _too_large(records: Records, topic: str) -> str:
    key, size = max(((key, len(key) + len(value or b"")) for key, value in records), key=lambda pair: pair[1])
    return (
        f"the largest record, {key.decode(errors='replace')}, has {size} bytes, which is more than max.message.bytes "
        f"of {topic} or message.max.bytes of the broker allows: raise it"
    )
