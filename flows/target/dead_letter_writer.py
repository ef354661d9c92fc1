"""Writing of dead letters, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from flows.partition.rejection import Rejection
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.target.dead_letters import DeadLetter, dead_letters
from mm2.core.lanes.lease import DeadLettersLease
from mm2.core.naming.internal_topics import DEAD_LETTER_BYTES
from mm2.core.naming.names import Flow
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode

DEAD_LETTER_BUFFER_BYTES = DEAD_LETTER_BYTES
"""One letter at a time; the dead-letter topic accepts no larger one."""

_PARTITION = 0  # letters stay in the order in which they were written
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class DeadLetterWriter:
    """Writes letters and reports the results to their partitions.

    (A) One letter is written at a time, so that a request that is too large contains no other one.
    (B) A letter that the topic rejects as too large is written without value, then without key.
    (C) ``source_values`` False: contents that a query has not passed are not written (`flows.target.dead_letters`).
    """

    def __init__(
        self,
        producer: ControlProducer,
        lease: DeadLettersLease,
        *,
        flow: Flow,
        source_task: int,
        source_values: bool = True,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self._report_after_s = timeouts.unanswered_report_s
        self._producer = producer
        self._lease = lease
        self._flow = flow
        self._source_task = source_task
        self._source_values = source_values
        self._writing = asyncio.Lock()

    @property
    def topic(self) -> str:
        return self._lease.topic

    async def write(self, partition: PartitionReplicator, rejection: Rejection) -> None:
        """Write the letter for what the partition cannot copy. Raises ClusterClosed."""
        topic = self._lease.topic
        try:
            await self._patiently(partition, rejection, self._write(partition, rejection))
        except ClusterClosed:
            raise
        except ClusterError as error:
            message = f"{rejection.message}; its dead letter cannot be written to {topic}: {error}"
            partition.dead_letter_failed(rejection, message, time.monotonic())
        else:
            partition.dead_letter_written(rejection, time.monotonic())

    async def _write(self, partition: PartitionReplicator, rejection: Rejection) -> None:
        letters = list(
            dead_letters(
                partition.source,
                self._source_task,
                rejection,
                context_headers=self._lease.context_headers,
                source_values=self._source_values,
            )
        )
        async with self._writing:
            for letter in letters:
                try:
                    await self._send(letter)
                except ClusterError as error:
                    if letter is letters[-1] or not _is_too_large(error):
                        raise
                else:
                    return

    async def _send(self, letter: DeadLetter) -> None:
        await self._producer.send(self._lease.topic, _PARTITION, letter.key, letter.value, headers=letter.headers)

    async def _patiently(
        self, partition: PartitionReplicator, rejection: Rejection, work: Coroutine[Any, Any, None]
    ) -> None:
        """Wait for ``work``, and report to the partition that it takes long."""
        task = asyncio.create_task(work, name=f"{self._flow} dead letter")
        try:
            while not (await asyncio.wait({task}, timeout=self._report_after_s))[0]:
                why = self._producer.trouble or f"not acknowledged within {self._report_after_s:.0f} s"
                message = f"{rejection.message}; its dead letter is not written to {self._lease.topic} yet: {why}"
                partition.dead_letter_delayed(message, time.monotonic())
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        await task


def _is_too_large(error: ClusterError) -> bool:
    return isinstance(error, BrokerError) and error.code in _TOO_LARGE
