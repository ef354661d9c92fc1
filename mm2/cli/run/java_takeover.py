"""Start of a node with a file that Java has run: what Java ignored does not prevent it.

A line that looks like a key which selects or protects data is an error. But if Java ran all flows of the node, and they
select and protect what Java did, the line changes nothing: it becomes a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mm2.cli.clusters.cluster_access import ANSWER_MS, ask, connection_error, reason, short_timeout_cluster
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.reload.java_config_diff import selection_differences
from mm2.config.reload.sources import LoadedConfig, take
from mm2.config.settings import FlowSettings
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.store.java_config import NotOfJavaError, read_java_config


def taken_as_java(taken: LoadedConfig) -> tuple[LoadedConfig, str]:
    """Return the file as it starts after its targets were asked, and what they answered, for the user.

    ``taken`` has near misses that are errors. If it has other errors, too, nothing is asked, and the text is empty.
    """
    again = take(taken.path, taken.clusters, accepted=taken.near_misses)
    if again.reading is None:
        return taken, ""
    enabled = [flow for flow in again.reading.settings.flows if flow.enabled]
    if why_not := ask(_why_not_as_java(enabled), "asking whether Java MirrorMaker 2 has run these flows"):
        return taken, f"{taken.path}: {_LINES} errors: {why_not}"
    names = ", ".join(str(flow.flow) for flow in enabled)
    return again, f"{taken.path}: {_LINES} warnings: Java MirrorMaker 2 ran {names} with the same topics and groups"


_LINES = "lines that look like a key which selects or protects data are"


async def _why_not_as_java(flows: Sequence[FlowSettings]) -> str:
    """Return why it is not known that Java ran all ``flows`` with their settings; empty if it did."""
    if not flows:
        return "no flow is enabled"
    found = await asyncio.gather(*map(_why_not, flows))
    return next(filter(None, found), "")


async def _why_not(flow: FlowSettings) -> str:
    unknown = f"it is unknown whether Java MirrorMaker 2 has run {flow.flow}"
    async with short_timeout_cluster(flow.clients.of(ClientRole.SHARED_ADMIN)) as target:
        if (error := await connection_error(target)) is not None:
            return f"{unknown}: {flow.flow.target}: {reason(flow.flow.target, error)}"
        try:
            java = await read_java_config(flow, target, timeout_ms=ANSWER_MS)
        except (ClusterError, NotOfJavaError) as problem:
            if not isinstance(problem, BrokerError) or problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return f"{unknown}: {problem}"
            java = None
    if java is None:
        return f"Java MirrorMaker 2 has not run {flow.flow}"
    if differences := selection_differences(flow, java.properties):
        return f"Java MirrorMaker 2 ran {flow.flow} with other settings: {', '.join(map(str, differences))}"
    return ""
