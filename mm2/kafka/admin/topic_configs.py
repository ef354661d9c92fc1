"""Requests that describe topic configurations and change single entries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from mm2.core.access.rights import on_topic
from mm2.core.topics.acls import Operation
from mm2.core.topics.topic_configs import ConfigEntry, ConfigSource, DeleteConfig, SetConfig
from mm2.kafka.admin.any_broker import ask_any_broker
from mm2.kafka.chunks import chunks
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.schema import BOOL, INT8, INT16, INT32, STRING
from mm2.kafka.retrying import API_TIMEOUT_MS

_TOPIC = 2  # ConfigResource.Type.TOPIC
_SET, _DELETE = 0, 1  # AlterConfigOp.OpType

_TOPICS_A_REQUEST = 500  # a response of about 1 MB, which takes the broker a fifth of a second
_CHANGES_A_REQUEST = 5_000  # a KRaft controller rejects more than 10,000 in one request

TopicConfigs = dict[str, ConfigEntry]
_Resource = tuple[int, str, list[tuple[str, int, str | None]]]


class DescribeConfigsRequest(
    ApiRequest,
    api_key=32,
    versions=(1,),
    kafka="1.1",
    bulk=True,
    request={
        "resources": [{"type": INT8, "name": STRING, "configs": [STRING]}],
        "include_synonyms": BOOL,
    },
    response={
        "_throttle_ms": INT32,
        "resources": [
            {
                "error": INT16,
                "message": STRING,
                "_type": INT8,
                "name": STRING,
                "configs": [
                    {
                        "name": STRING,
                        "value": STRING,
                        "read_only": BOOL,
                        "source": INT8,
                        "sensitive": BOOL,
                        "_synonyms": [{"name": STRING, "value": STRING, "source": INT8}],
                    }
                ],
            }
        ],
    },
):
    """Request configs of ``topics``. The response is a dict from topic to its configs or the broker's error."""

    def __init__(self, topics: Sequence[str], *, cluster: str, keys: Sequence[str] | None = None) -> None:
        """``cluster`` is the alias that errors name; ``keys`` None: all of them."""
        super().__init__([(_TOPIC, name, keys) for name in topics], False)
        self._cluster = cluster

    def parse(self, *fields: Any) -> dict[str, TopicConfigs | BrokerError]:
        (resources,) = fields
        known: dict[tuple[Any, ...], ConfigEntry] = {}  # shared, since most entries are the same for all topics
        found: dict[str, TopicConfigs | BrokerError] = {}
        for code, message, name, rows in resources:
            if code:
                found[name] = BrokerError(
                    code,
                    f"describe configuration of topic {name}",
                    message,
                    on_topic(Operation.DESCRIBE_CONFIGS, name, self._cluster),
                )
            else:
                found[name] = {row[0]: known.get(row) or known.setdefault(row, _entry(*row)) for row in rows}
        return found


class IncrementalAlterConfigsRequest(
    ApiRequest,
    api_key=44,
    versions=(0,),
    kafka="2.3",
    request={
        "resources": [
            {
                "type": INT8,
                "name": STRING,
                "configs": [{"name": STRING, "operation": INT8, "value": STRING}],
            }
        ],
        "validate_only": BOOL,
    },
    response={
        "_throttle_ms": INT32,
        "resources": [{"error": INT16, "message": STRING, "_type": INT8, "name": STRING}],
    },
):
    """Change single configs of ``resources`` (KIP-339). The response has one field, the rows of ``resources``."""

    def __init__(self, resources: Sequence[Any]) -> None:
        super().__init__(resources, False)


async def describe_topic_configs(
    cluster: Cluster,
    topics: Collection[str],
    *,
    timeout_ms: int = API_TIMEOUT_MS,
    keys: Sequence[str] | None = None,
) -> dict[str, TopicConfigs | BrokerError]:
    """Return each topic's effective configuration, of all ``keys`` or these, or the broker's error for that topic.

    Raises ClusterError if no broker answers within ``timeout_ms``.
    """
    found: dict[str, TopicConfigs | BrokerError] = {}
    for names in chunks(sorted(topics), _TOPICS_A_REQUEST):
        found |= await ask_any_broker(
            cluster,
            DescribeConfigsRequest(names, cluster=cluster.settings.alias, keys=keys),
            "describe topic configurations",
            timeout_ms,
        )
    return found


async def alter_topic_configs(
    cluster: Cluster,
    changes: Mapping[str, Sequence[SetConfig | DeleteConfig]],
    *,
    timeout_ms: int = API_TIMEOUT_MS,
) -> dict[str, BrokerError | None]:
    """Change only these configs of these topics (KIP-339). Return None or the broker's error for each topic.

    Of each topic, all changes are applied or none. Raises NotSupported for brokers older than 2.3, or another
    ClusterError if no broker answers within ``timeout_ms``.
    """
    outcome: dict[str, BrokerError | None] = {}
    for resources in _resources(changes):
        request = IncrementalAlterConfigsRequest(resources)
        (results,) = await ask_any_broker(cluster, request, "change topic configurations", timeout_ms)
        for code, message, name in results:
            right = on_topic(Operation.ALTER_CONFIGS, name, cluster.settings.alias)
            what = f"change configuration of topic {name}"
            outcome[name] = BrokerError(code, what, message, right) if code else None
    return outcome


def _entry(name: str, value: str | None, read_only: bool, source: int, sensitive: bool) -> ConfigEntry:
    return ConfigEntry(name=name, value=value, read_only=read_only, source=ConfigSource(source), sensitive=sensitive)


def _resources(changes: Mapping[str, Sequence[SetConfig | DeleteConfig]]) -> Iterator[list[_Resource]]:
    """Split the changes into requests; those of one topic stay together."""
    resources = ((_TOPIC, name, [_row(change) for change in changes[name]]) for name in sorted(changes))
    return chunks(resources, _CHANGES_A_REQUEST, lambda resource: len(resource[2]))


def _row(change: SetConfig | DeleteConfig) -> tuple[str, int, str | None]:
    match change:
        case SetConfig(name=name, value=value):
            return name, _SET, value
        case DeleteConfig(name=name):
            return name, _DELETE, None
