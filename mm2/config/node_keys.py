"""Keys that stand alone in the file and concern the node as a whole: REST, and those of our own (contract: Keys)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from mm2.config.java_types import (
    Boolean,
    Int,
    ListOf,
    Long,
    OptionalInt,
    OptionalList,
    OptionalString,
    String,
    at_least,
    one_of,
    refuse,
)
from mm2.config.keys import KeyModel, key
from mm2.config.reach import Reach
from mm2.core.exact_offset_records import SEGMENT_RANGES

NODE_CLUSTERS = "clusters of nodes"
ZOOKEEPER = "elections on ZooKeeper"
REST_ADMIN = "REST commands"
CROSS_ORIGIN = "REST pages for other origins"


MOST_RANGES = 32_768
"""About 1 MB of memory, and 300 KB in the topic, for a partition that is all holes."""

_LISTENER = re.compile(r"http://(?:\[[0-9a-z:.%]+\]|[0-9a-z._-]*):(?P<port>[0-9]{1,5})/?", re.IGNORECASE)
"""An empty host is every interface."""


def _listener_urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    if not any(urls):
        raise refuse("must name at least one URL such as http://127.0.0.1:8083")
    for url in urls:
        if url.lower().startswith("https:"):
            raise refuse(
                "must be http://…: TLS for listeners comes with a later release, and plain text instead of TLS is "
                "nothing a node decides by itself"
            )
        if not _is_http_url(url):
            raise refuse("must be URLs such as http://127.0.0.1:8083, parted by commas")
    return urls


def _is_http_url(url: str) -> bool:
    match = _LISTENER.fullmatch(url)
    return match is not None and int(match["port"]) <= 65_535


class RestSettings(KeyModel):
    """The node's own HTTP side. ``listeners`` None: no line in the file (contract: REST)."""

    listeners: Annotated[OptionalList, AfterValidator(_listener_urls)] = key(
        "listeners",
        None,
        "URLs to serve REST on. Without it only a loopback socket for leases exists.",
        reach=Reach.NODE,
    )
    internal_rest: Boolean = key(
        "dedicated.mode.enable.internal.rest",
        False,
        "Serve what nodes ask each other (KIP-710); alone, on `http://:8083`.",
        reach=Reach.NODE,
        later=NODE_CLUSTERS,
    )
    advertised_host_name: OptionalString = key(
        "rest.advertised.host.name", None, "The host other nodes reach this one by.", reach=Reach.NODE
    )
    advertised_port: OptionalInt = key(
        "rest.advertised.port", None, "The port other nodes reach this one by.", reach=Reach.NODE
    )
    advertised_listener: Annotated[OptionalString, one_of("http", "https", ignore_case=True)] = key(
        "rest.advertised.listener", None, "`http` or `https`: the listener other nodes use.", reach=Reach.NODE
    )
    access_control_allow_origin: String = key(
        "access.control.allow.origin",
        "",
        "Origins that browsers may call REST from.",
        reach=Reach.NODE,
        later=CROSS_ORIGIN,
    )
    access_control_allow_methods: String = key(
        "access.control.allow.methods", "", "Methods that browsers may call.", reach=Reach.NODE, later=CROSS_ORIGIN
    )
    response_http_headers_config: String = key(
        "response.http.headers.config", "", "Headers to add to answers.", reach=Reach.NODE, later=CROSS_ORIGIN
    )
    ssl_client_auth: Annotated[String, one_of("required", "requested", "none")] = key(
        "ssl.client.auth",
        "none",
        "Whether TLS listeners want certificates.",
        reach=Reach.NODE,
        later=NODE_CLUSTERS,
        idle="none",
    )


class OwnSettings(KeyModel):
    """Keys that only this implementation has; Java ignores them."""

    election: Annotated[String, one_of("kafka", "zookeeper")] = key(
        "mm2.election",
        "kafka",
        "What nodes elect a leader with: the flow's Kafka group, or ZooKeeper.",
        reach=Reach.NODE,
        later=ZOOKEEPER,
        idle="kafka",
    )
    zookeeper_connect: OptionalString = key(
        "mm2.zookeeper.connect",
        None,
        "ZooKeeper servers and root, `host:port,…/path`.",
        reach=Reach.NODE,
        later=ZOOKEEPER,
    )
    lanes: Annotated[OptionalInt, at_least(1, "without a lane nothing is copied")] = key(
        "mm2.lanes",
        None,
        "Endless Spark tasks a node may run. Without it: as many as the machine has cores.",
        reach=Reach.NODE,
    )
    lane_buffer_bytes: Annotated[Long, at_least(1_048_576, "no batch of the usual size would fit")] = key(
        "mm2.lane.buffer.bytes",
        64 * 1024 * 1024,
        "Bytes a lane may hold between fetch and acknowledgement; it stops fetching beyond.",
        reach=Reach.NODE,
    )
    rest_admin: Boolean = key(
        "mm2.rest.admin",
        False,
        "Let REST pause, resume and restart, not only show.",
        reach=Reach.NODE,
        later=REST_ADMIN,
    )
    log_level: Annotated[String, one_of("DEBUG", "INFO", "WARNING", "ERROR", ignore_case=True)] = key(
        "mm2.log.level", "INFO", "The least that is logged.", reach=Reach.RUNNING
    )
    log_format: Annotated[String, one_of("text", "json")] = key(
        "mm2.log.format", "text", "`text` for people, `json` for machines, one object a line.", reach=Reach.NODE
    )


def _whole_segments(ranges: int) -> int:
    if ranges % SEGMENT_RANGES or not SEGMENT_RANGES <= ranges <= MOST_RANGES:
        raise refuse(
            f"must be a multiple of {SEGMENT_RANGES} from {SEGMENT_RANGES} to {MOST_RANGES}: ranges are stored by the "
            f"{SEGMENT_RANGES}"
        )
    return ranges


class OwnFlowSettings(KeyModel):
    """Keys of our own that can differ from flow to flow: ``A->B.mm2.…``, else ``mm2.…``."""

    offset_translation: Annotated[String, one_of("exact", "compatible")] = key(
        "mm2.offset.translation",
        "exact",
        "Translate group offsets exactly where acknowledgements are remembered, or always as Java does.",
        reach=Reach.FLOW,
    )
    offset_translation_window: Annotated[Int, AfterValidator(_whole_segments)] = key(
        "mm2.offset.translation.window",
        1024,
        "Ranges of offsets that exact translation remembers of each partition; a partition copied without holes is "
        "one range.",
        reach=Reach.FLOW,
    )


class FileSettings(KeyModel):
    """What the file says about itself."""

    clusters: ListOf = key(
        "clusters", (), "Aliases of all clusters; flows are pairs of them. Required.", reach=Reach.RUNNING
    )
    config_providers: ListOf = key(
        "config.providers",
        (),
        "Names of config providers, each with `config.providers.<name>.class` (secrets).",
        reach=Reach.NOTHING,
    )
