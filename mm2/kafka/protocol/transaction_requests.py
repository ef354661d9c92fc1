"""Requests of a transactional producer to its coordinator: InitProducerId, AddPartitionsToTxn, EndTxn.

From version 3 on InitProducerId states which producer it continues (KIP-360); aiokafka has only version 0. The other
two are aiokafka's, version 0, with which a broker treats a repeated EndTxn of the same epoch as a retry.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.schema import INT16, INT32, INT64, STRING


class ProducerIdAndEpoch(NamedTuple):
    """A transactional producer: of two with the same id, the one with the higher ``epoch`` is newer."""

    producer_id: int
    epoch: int


NO_PRODUCER = ProducerIdAndEpoch(-1, -1)
"""Continues no producer: fences the current owner of the transactional id."""


class InitAnswer(NamedTuple):
    """``producer`` is `NO_PRODUCER` if ``error`` is not 0."""

    error: int
    producer: ProducerIdAndEpoch


class InitProducerIdRequest(
    ApiRequest,
    api_key=22,
    versions=(3, 4),  # 4 distinguishes a fenced producer from one with a stale epoch; 5 and 6 add nothing here
    first_flexible=2,
    kafka="2.5",
    request={"transactional_id": STRING, "timeout_ms": INT32, "producer_id": INT64, "epoch": INT16},
    response={"_throttle_ms": INT32, "error": INT16, "producer_id": INT64, "epoch": INT16},
):
    """Request a new epoch for the producer ``continues``; fails if another one has acquired its transactional id.

    The response is an `InitAnswer`.
    """

    def __init__(self, transactional_id: str, timeout_ms: int, continues: ProducerIdAndEpoch) -> None:
        super().__init__(transactional_id, timeout_ms, *continues)

    def parse(self, *fields: Any) -> InitAnswer:
        error, producer_id, epoch = fields
        return InitAnswer(error, ProducerIdAndEpoch(producer_id, epoch))


def add_partitions(
    transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Add these partitions to the transaction. The response has an error code per partition."""
    by_topic: dict[str, list[int]] = {}
    for one in partitions:
        by_topic.setdefault(one.topic, []).append(one.partition)
    return AddPartitionsToTxnRequest(transactional_id, *producer, list(by_topic.items()))


def end(transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool) -> EndTxnRequest:
    """Commit or abort. A repeated request gets CONCURRENT_TRANSACTIONS until every partition has its marker."""
    return EndTxnRequest(transactional_id, *producer, commit)
