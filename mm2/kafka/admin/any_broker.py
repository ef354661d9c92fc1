"""Requests that any broker of a cluster can answer."""

from __future__ import annotations

from typing import Any

from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import NotSupported
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.retrying import retried


async def ask_any_broker(cluster: Cluster, request: ApiRequest, what: str, timeout_ms: int) -> Any:
    """Send ``request`` to any broker, retried for ``timeout_ms``, and return the response.

    Raises ClusterError; NotSupported names ``what``, the action that needs a newer Kafka.
    """

    async def attempt() -> Any:
        return await cluster.send(await cluster.any_node(), request)

    try:
        return await retried(attempt, cluster.settings, timeout_ms=timeout_ms)
    except NotSupported as error:
        older = f"its brokers are older than Kafka {request.KAFKA}"
        raise NotSupported(f"cluster {cluster.settings.alias}: cannot {what}: {older}") from error
