"""The requests of one transactional id to its coordinator."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mm2.core.access.rights import Right, on_topic, on_transactional_id
from mm2.core.naming.names import TopicPartition
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.errors import BrokerError, ClusterError, check
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.transaction_requests import (
    NO_PRODUCER,
    InitProducerIdRequest,
    ProducerIdAndEpoch,
    add_partitions,
    end,
)

_ANSWER_MS = 10_000  # per response: these requests are idempotent, so one to a silent broker can be repeated sooner

_REPLACED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_NOT_WRITABLE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_NOTHING_OPEN = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class Fenced(ClusterError):
    """A newer writer has the transactional id: this one may no longer write.

    A broker also returns this after it aborted a transaction that took longer than its timeout. A caller that is still
    the rightful writer may acquire the id again.
    """


class TransactionCoordinator:
    """One attempt per call, without retries; finds the coordinator again after an error.

    All calls raise Fenced, BrokerError and other ClusterErrors, and can be repeated. ``timeout_ms`` is the transaction
    timeout at the broker.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, timeout_ms: int, purpose: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._purpose = purpose
        self._answer_ms = min(cluster.settings.request_timeout_ms, _ANSWER_MS)
        self._node: int | None = None

    async def init(self, continues: ProducerIdAndEpoch = NO_PRODUCER) -> ProducerIdAndEpoch:
        """Acquire the id (InitProducerId): earlier producers are fenced, and their open transactions aborted.

        With ``continues`` only as the same producer, with a higher epoch (KIP-360). Raises BrokerError with
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED without permission, NotSupported for brokers older than Kafka 2.5.
        """
        answer = await self._ask(InitProducerIdRequest(self._id, self._timeout_ms, continues))
        self.check(answer.error, f"acquire the transactional id {self._id}")
        found: ProducerIdAndEpoch = answer.producer
        return found

    async def add(self, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]) -> None:
        """Add partitions to the transaction, which begins with the first of them."""
        for partition, code in (await self.try_add(producer, partitions)).items():
            self.check(code, f"begin a transaction of {self._id} on {partition}", topic=partition.topic)

    async def add_writable(self, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]) -> bool:
        """Add the partitions that exist and that this client may write. Return False if there are none."""
        codes = await self.try_add(producer, partitions)
        writable = [one for one in partitions if codes.get(one) not in _NOT_WRITABLE]
        if writable and any(codes.values()):
            await self.add(producer, writable)
        return bool(writable)

    async def try_add(
        self, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Add partitions, and return the error code of each; if there are errors, only of those that have one.

        An error of one keeps all others out of the transaction.
        """
        answer = await self._ask(add_partitions(self._id, producer, partitions))
        codes = {TopicPartition(topic, number): code for topic, codes in answer.errors for number, code in codes}
        failed = {one: code for one, code in codes.items() if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)}
        return failed or codes

    async def commit(self, producer: ProducerIdAndEpoch) -> None:
        """Commit. A repeated call fails with CONCURRENT_TRANSACTIONS until every partition has its marker."""
        await self._end(producer, commit=True)

    async def abort(self, producer: ProducerIdAndEpoch) -> None:
        """Abort the transaction, if one is open. A repeated call fails as that of `commit`."""
        try:
            await self._end(producer, commit=False)
        except BrokerError as error:
            if error.code not in _NOTHING_OPEN:
                raise

    def check(self, code: int, what: str, words: str | None = None, topic: str = "") -> None:
        """Raise the exception for the error code of a response to this producer, if it is one.

        ``topic`` is the one that was to be written, if the response is about a topic.
        """
        if code in _REPLACED:
            raise Fenced(
                f"cannot {what}: fenced by a newer writer with transactional id {self._id},"
                " or by the broker after a transaction timed out"
            )
        if code and code != ErrorCode.CONCURRENT_TRANSACTIONS:
            self._node = None  # the coordinator may have moved
        cluster = self._cluster.settings.alias
        about_topic = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        right = on_topic(Operation.WRITE, topic, cluster) if about_topic else self._right
        check(code, what, words, right)

    @property
    def _right(self) -> Right:
        return on_transactional_id(Operation.WRITE, self._id, self._cluster.settings.alias)

    async def _end(self, producer: ProducerIdAndEpoch, *, commit: bool) -> None:
        answer = await self._ask(end(self._id, producer, commit=commit))
        self.check(answer.error_code, f"{'commit' if commit else 'abort'} a transaction of {self._id}")

    async def _ask(self, request: Any) -> Any:
        if self._node is None:
            self._node = await self._cluster.coordinator(
                CoordinatorKind.TRANSACTION, self._id, operation=Operation.WRITE
            )
        try:
            return await self._cluster.send(self._node, request, purpose=self._purpose, timeout_ms=self._answer_ms)
        except ClusterError:
            self._node = None
            raise
