"""OffsetFetch: all committed offsets of groups, with many groups per request if supported (KIP-709, brokers 3.0+).

Transactions that are still open are not waited for: require_stable is false, as in Java's admin client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import CommittedOffset
from mm2.kafka.errors import BrokerError
from mm2.kafka.groups.group_errors import describe_error
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Since, Type

OFFSET_FETCH = 9
MANY_GROUPS = 8  # OffsetFetch's version that takes several groups

CommittedOffsets = dict[TopicPartition, CommittedOffset | None]

_TOPICS: Type = [{"name": STRING, "partitions": [INT32]}]
_COMMITTED: Type = [
    {
        "name": STRING,
        "partitions": [
            {
                "partition": INT32,
                "offset": INT64,
                "_leader_epoch": Since(5, INT32),
                "metadata": STRING,
                "error": INT16,
            }
        ],
    }
]


class OffsetFetchRequest(
    ApiRequest,
    api_key=OFFSET_FETCH,
    versions=(2, 3, 4, 5, MANY_GROUPS),  # 2 can ask for all partitions; 6 and 7 add nothing
    first_flexible=6,
    bulk=True,
    request={
        "group": Since(0, STRING, until=7),
        "topics": Since(0, _TOPICS, until=7),
        "groups": Since(MANY_GROUPS, [{"group": STRING, "topics": _TOPICS}]),
        "require_stable": Since(7, BOOL),
    },
    response={
        "_throttle_ms": Since(3, INT32),
        "topics": Since(0, _COMMITTED, until=7),
        "error": Since(2, INT16, until=7),
        "groups": Since(MANY_GROUPS, [{"group": STRING, "topics": _COMMITTED, "error": INT16}]),
    },
):
    """Request all committed offsets of ``groups`` from their coordinator; of one group only before Kafka 3.0.

    The response is a dict from group to its offsets, or the error of the group or one of its partitions. A group that
    does not exist has no offsets.
    """

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__(groups[0], None, [(group, None) for group in groups], False)
        self._groups = groups

    def usable_versions(self) -> Sequence[int]:
        return self._versions if len(self._groups) == 1 else (MANY_GROUPS,)

    def parse(self, *fields: Any) -> dict[str, CommittedOffsets | BrokerError]:
        topics, error, groups = fields
        rows = [(self._groups[0], topics, error)] if groups is None else groups
        return {group or "": _offsets(group or "", topics, error) for group, topics, error in rows}


def fetches_many(versions: Mapping[int, tuple[int, int]]) -> bool:
    """Return whether a broker accepts several groups in one request."""
    lowest, highest = versions.get(OFFSET_FETCH, (0, -1))
    return lowest <= MANY_GROUPS <= highest


def _offsets(group: str, topics: list[Any] | None, error: int) -> CommittedOffsets | BrokerError:
    offsets: CommittedOffsets = {}
    for topic, partitions in topics or ():
        for partition, offset, metadata, code in partitions:
            committed = CommittedOffset(offset=offset, metadata=metadata or "") if offset >= 0 else None
            offsets[TopicPartition(topic, partition)] = committed
            error = error or code
    return describe_error(error, "fetch the offsets of group", group) if error else offsets
