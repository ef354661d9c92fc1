"""Keys that stand alone in the file and concern the node as a whole: REST, and those of our own (contract: Keys)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from mm2.config.java_regex import compile_java
from mm2.config.java_regex_sets import JavaRegexError
from mm2.config.java_types import (
    Boolean,
    Elements,
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
from mm2.core.answer_headers import AnswerHeadersError, read_header_rules
from mm2.core.exact_offset_records import SEGMENT_RANGES

_NODE_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
HTTPS = "listeners.https."
"""In front of ``ssl.*``: for the listeners, and not for the clients of clusters."""

CLIENT_AUTH = "ssl.client.auth"
SHORTEST_TOKEN = 16
"""Characters of mm2.rest.admin.token: at 1,000 guesses a second, 16 random letters and digits last for ever."""


MOST_RANGES = 32_768
"""About 1 MB of memory, and 300 KB in the topic, for a partition that is all holes."""

_LISTENER = re.compile(r"https?://(?:\[[0-9a-z:.%]+\]|[0-9a-z._-]*):(?P<port>[0-9]{1,5})/?", re.IGNORECASE)
"""An empty host is every interface."""

_METHOD = re.compile("[A-Z]+")
_TOKEN = re.compile("[!-~]+")


def _listener_urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    if not any(urls):
        raise refuse("must name at least one URL such as http://127.0.0.1:8083")
    for url in urls:
        if not _is_http_url(url):
            raise refuse("must be http or https URLs such as http://127.0.0.1:8083, parted by commas")
    return urls


def _is_http_url(url: str) -> bool:
    match = _LISTENER.fullmatch(url)
    return match is not None and int(match["port"]) <= 65_535


def _origins(elements: tuple[str, ...]) -> tuple[str, ...]:
    for element in elements:
        if element not in ("", "*"):
            try:
                compile_java(f"(?i){element}")
            except JavaRegexError as error:
                raise refuse(
                    f"must be * or regular expressions for origins, parted by commas; {element} {error}"
                ) from error
    return elements


def _methods(elements: tuple[str, ...]) -> tuple[str, ...]:
    if strange := [element for element in elements if not _METHOD.fullmatch(element)]:
        raise refuse(f"must be HTTP methods such as GET, parted by commas; {', '.join(strange)} is none")
    return elements


def _header_rules(text: str) -> str:
    try:
        read_header_rules(text)
    except AnswerHeadersError as error:
        raise refuse(str(error)) from error
    return text


def _token(text: str) -> str:
    if len(text) < SHORTEST_TOKEN or not _TOKEN.fullmatch(text):
        raise refuse(
            f"must be at least {SHORTEST_TOKEN} letters, digits and signs of ASCII, without blanks: whoever guesses it "
            "can stop replication. openssl rand -hex 32 makes one"
        )
    return text


_ClientAuth = Annotated[String, one_of("required", "requested", "none")]


class ClientAuthKeys(KeyModel):
    """What a listener's TLS has beside a client's, also behind ``listeners.https.``."""

    ssl_client_auth: _ClientAuth = key(
        CLIENT_AUTH, "none", "Whether https listeners want certificates of callers.", reach=Reach.NODE
    )


class RestSettings(KeyModel):
    """The node's own HTTP side. ``listeners`` None: no line in the file (contract: REST)."""

    listeners: Annotated[OptionalList, AfterValidator(_listener_urls)] = key(
        "listeners",
        None,
        "URLs to serve REST on, http or https (docs/rest.md). Without it only a loopback socket for leases exists.",
        reach=Reach.NODE,
    )
    internal_rest: Boolean = key(
        "dedicated.mode.enable.internal.rest",
        False,
        "Serve REST on `http://:8083` where there are no `listeners` (KIP-710). Nodes ask each other on either.",
        reach=Reach.NODE,
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
    access_control_allow_origin: Annotated[Elements, AfterValidator(_origins)] = key(
        "access.control.allow.origin",
        (),
        "Origins whose pages browsers let read REST: `*`, or regular expressions parted by commas.",
        reach=Reach.NODE,
    )
    access_control_allow_methods: Annotated[Elements, AfterValidator(_methods)] = key(
        "access.control.allow.methods",
        (),
        "Methods that such pages may use. Without it: GET, POST and HEAD.",
        reach=Reach.NODE,
    )
    response_http_headers_config: Annotated[String, AfterValidator(_header_rules)] = key(
        "response.http.headers.config",
        "",
        "Headers of all answers, such as `set X-Frame-Options: DENY`.",
        reach=Reach.NODE,
    )
    ssl_client_auth: _ClientAuth = key(
        CLIENT_AUTH, "none", "Whether https listeners want certificates of callers.", reach=Reach.NODE
    )


def _node_id(text: str | None) -> str | None:
    if text is not None and not _NODE_ID.fullmatch(text):
        raise refuse(
            "must be 1 to 200 letters, digits, dots, dashes, underscores or colons: it stands in logs and URLs"
        )
    return text


class OwnSettings(KeyModel):
    """Keys that only this implementation has; Java ignores them."""

    node_id: Annotated[OptionalString, AfterValidator(_node_id)] = key(
        "mm2.node.id",
        None,
        "What this node calls itself to the others of its flows, the same after a restart. Without it: host and port of"
        " its REST interface, or host and process id.",
        reach=Reach.NODE,
        local=True,
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
    )
    rest_admin_token: Annotated[OptionalString, AfterValidator(_token)] = key(
        "mm2.rest.admin.token",
        None,
        "What `mm2.rest.admin` asks callers for: `Authorization: Bearer TOKEN` (secret).",
        reach=Reach.NODE,
        local=True,
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
