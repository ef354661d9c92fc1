"""Keys without a prefix that configure the whole node: REST, and keys of our own."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from mm2.config.grammar.java_types import (
    Boolean,
    Elements,
    JavaType,
    ListOf,
    Long,
    OptionalInt,
    OptionalList,
    OptionalLong,
    OptionalString,
    String,
    at_least,
    one_of,
    refuse,
    require,
)
from mm2.config.keys.declaration import KeyModel, flow_key, idle_key, live_key, node_key
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import compile_java
from mm2.core.lanes.losses import OnDataLoss
from mm2.core.log_records import read_levels
from mm2.core.offsets.exact_offset_records import SEGMENT_RANGES
from mm2.core.offsets.map_retention import TranslationWindow
from mm2.core.settings.client import OffsetReset, read_start_point
from mm2.core.settings.response_headers import ResponseHeadersError, read_header_rules
from mm2.core.topics.topic_plan import COPY_RETURNED

HTTPS = "listeners.https."
"""Prefix of ``ssl.*`` for listeners only, not for Kafka clients."""

CLIENT_AUTH = "ssl.client.auth"
SHORTEST_TOKEN = 16
"""Characters of mm2.rest.admin.token: 16 random letters and digits cannot be guessed at 1,000 guesses a second."""


MOST_RANGES = 32_768
"""1.4 MB in the topic for a partition that is all gaps."""

_LISTENER = re.compile(r"https?://(?:\[[0-9a-z:.%]+\]|[0-9a-z._-]*):(?P<port>[0-9]{1,5})/?", re.IGNORECASE)
"""An empty host means every interface."""

_HOST = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_METHOD = re.compile("[A-Z]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")

_LISTENERS_FIX = "write listeners = http://127.0.0.1:8083, or remove the line"


def is_http_url(url: str) -> bool:
    """Return whether ``url`` is that of a listener, http or https with a port."""
    match = _LISTENER.fullmatch(url)
    return match is not None and int(match["port"]) <= 65_535


def _origins(elements: tuple[str, ...]) -> tuple[str, ...]:
    for element in elements:
        if element not in ("", "*"):
            try:
                compile_java(f"(?i){element}")
            except JavaRegexError as error:
                raise refuse(
                    f"must be * or comma-separated regular expressions for origins; {element} {error}"
                ) from error
    return elements


def _methods(elements: tuple[str, ...]) -> tuple[str, ...]:
    if strange := [element for element in elements if not _METHOD.fullmatch(element)]:
        raise refuse(f"must be comma-separated HTTP methods such as GET, unlike {', '.join(strange)}")
    return elements


def _header_rules(text: str) -> str:
    try:
        read_header_rules(text)
    except ResponseHeadersError as error:
        raise refuse(str(error)) from error
    return text


def _log_levels(elements: tuple[str, ...]) -> tuple[str, ...]:
    try:
        read_levels(elements)
    except ValueError as error:
        raise refuse(str(error), "correct the value, or remove the line to use mm2.log.level for all") from error
    return elements


_TOKEN = require(
    re.compile(f"[!-~]{{{SHORTEST_TOKEN},}}").fullmatch,
    f"must be at least {SHORTEST_TOKEN} printable ASCII characters without spaces: anyone who guesses it can stop "
    "replication",
    "use the output of openssl rand -hex 32",
)

_HOSTS = require(
    lambda names: all(map(_HOST.fullmatch, names)),
    "must be comma-separated host names without a port, such as mm2.example.com, *.example.com or *",
)

_ClientAuth = Annotated[String, one_of("required", "requested", "none")]


class ClientAuthKeys(KeyModel):
    """TLS keys that only listeners have, also with the prefix ``listeners.https.``."""

    ssl_client_auth: _ClientAuth = node_key(CLIENT_AUTH, "none", "Whether https listeners request client certificates.")


class RestSettings(KeyModel):
    """REST interface of the node. ``listeners`` is None if the file does not set it."""

    listeners: Annotated[
        OptionalList,
        require(any, "must contain at least one URL", _LISTENERS_FIX),
        require(
            lambda urls: all(map(is_http_url, urls)),
            "must be comma-separated http or https URLs with a port",
            _LISTENERS_FIX,
        ),
    ] = node_key(
        "listeners",
        None,
        "URLs of the REST listeners, http or https ([REST](rest.md)). If not set, only a loopback socket is open.",
    )
    internal_rest: Boolean = node_key(
        "dedicated.mode.enable.internal.rest",
        False,
        "Serve REST on `http://:8083` if `listeners` is not set (KIP-710). Nodes call each other on these listeners.",
    )
    advertised_host_name: OptionalString = node_key(
        "rest.advertised.host.name", None, "Host name that other nodes use to connect to this node."
    )
    advertised_port: OptionalInt = node_key(
        "rest.advertised.port", None, "Port that other nodes use to connect to this node."
    )
    advertised_listener: Annotated[OptionalString, one_of("http", "https", ignore_case=True)] = node_key(
        "rest.advertised.listener", None, "Listener that other nodes use: `http` or `https`."
    )
    access_control_allow_origin: Annotated[Elements, AfterValidator(_origins)] = node_key(
        "access.control.allow.origin",
        (),
        "Allowed CORS origins: `*`, or comma-separated regular expressions.",
    )
    access_control_allow_methods: Annotated[Elements, AfterValidator(_methods)] = node_key(
        "access.control.allow.methods", (), "Allowed CORS methods. If not set: GET, POST and HEAD."
    )
    response_http_headers_config: Annotated[String, AfterValidator(_header_rules)] = node_key(
        "response.http.headers.config", "", "Headers of all responses, such as `set X-Frame-Options: DENY`."
    )
    ssl_client_auth: _ClientAuth = node_key(CLIENT_AUTH, "none", "Whether https listeners request client certificates.")


_NODE_ID = require(
    re.compile(r"[A-Za-z0-9._:-]{1,200}").fullmatch,
    "must be 1 to 200 letters, digits, dots, hyphens, underscores or colons: it is part of logs and URLs",
)


_VARIABLES = require(
    lambda names: all(map(_VARIABLE.fullmatch, names)),
    "must be comma-separated names of environment variables, such as AWS_PROFILE or AWS_*",
)


class EngineSettings(KeyModel):
    """Keys for the Spark engine, which are no settings of Spark. `kafka-mirror-maker` has them, too."""

    engine_environment: Annotated[ListOf, _VARIABLES] = node_key(
        "mm2.engine.environment",
        (),
        "Environment variables that Spark and the lanes get from the node, beside those that every program needs "
        "([list](../how-to/security.md#what-spark-gets)). A `*` at the end stands for any text.",
        local=True,
    )
    spark_insecure: Boolean = node_key(
        "mm2.spark.insecure",
        False,
        "Use a Spark cluster without authentication or encryption: every program that can connect to it can read "
        "the passwords of the clusters.",
    )


class OwnSettings(EngineSettings):
    """Keys that only this implementation has; Java ignores them."""

    node_id: Annotated[OptionalString, _NODE_ID] = node_key(
        "mm2.node.id",
        None,
        "ID of this node: unique, and kept across restarts. If not set: host and port of the REST interface, or host "
        "and process ID.",
        local=True,
    )
    lanes: Annotated[OptionalInt, at_least(1, "nothing is replicated without a lane")] = node_key(
        "mm2.lanes",
        None,
        "Maximum number of lanes (long-running Spark tasks) of the node. Each query of a flow has as many of its own."
        " If not set: one for each core.",
    )
    lane_buffer_bytes: Annotated[Long, at_least(1_048_576, "a batch of common size would not fit")] = node_key(
        "mm2.lane.buffer.bytes",
        64 * 1024 * 1024,
        "Maximum bytes that a lane has fetched and not yet replicated; it pauses fetching beyond.",
    )
    rest_admin: Boolean = node_key(
        "mm2.rest.admin", False, "Allow commands such as pause, resume and restart through REST."
    )
    rest_admin_token: Annotated[OptionalString, _TOKEN] = node_key(
        "mm2.rest.admin.token",
        None,
        "Token of the operator `admin`: `Authorization: Bearer TOKEN`. Nodes sign forwarded commands with it (secret).",
        local=True,
    )
    rest_tokens_file: OptionalString = live_key(
        "mm2.rest.tokens.file",
        None,
        "File with tokens of persons and programs, a line `NAME ROLE SHA256` for each, read again when it changes "
        "([Tokens](rest.md#tokens)).",
        local=True,
    )
    rest_read: Annotated[String, one_of("open", "token")] = node_key(
        "mm2.rest.read",
        "open",
        "Who can read the REST interface: `open`, everyone who can connect to it, or `token`, with a token of any "
        "role. Health and the API description are always open.",
        local=True,
    )
    audit_file: OptionalString = node_key(
        "mm2.audit.file",
        None,
        "File to which the node also appends its audit records, mode 600 ([Audit](audit.md)).",
        local=True,
    )
    rest_allowed_hosts: Annotated[ListOf, _HOSTS] = node_key(
        "mm2.rest.allowed.hosts",
        (),
        "Further names in the `Host` header of REST requests, such as `mm2.example.com`, `*.example.com`, or `*` for "
        "any, beside addresses and the node's own names ([REST](rest.md#names-of-a-node)).",
        local=True,
    )
    log_level: Annotated[String, one_of("DEBUG", "INFO", "WARNING", "ERROR", ignore_case=True)] = live_key(
        "mm2.log.level", "INFO", "Minimum log level."
    )
    log_levels: Annotated[ListOf, AfterValidator(_log_levels)] = live_key(
        "mm2.log.levels",
        (),
        "Levels of single loggers, such as `mm2.kafka=DEBUG, flows.target=DEBUG`; also in lanes "
        "([loggers](../how-to/operations.md#loggers)).",
    )
    log_format: Annotated[String, one_of("text", "json")] = node_key(
        "mm2.log.format", "text", "Format of log lines: `text`, or `json` with one object per line."
    )


def _window(value: object) -> TranslationWindow | int:
    text = str(value).strip()
    if text == TranslationWindow.RETENTION:
        return TranslationWindow.RETENTION
    ranges = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
    if ranges % SEGMENT_RANGES or not SEGMENT_RANGES <= ranges <= MOST_RANGES:
        raise refuse(
            f"must be retention, or a multiple of {SEGMENT_RANGES} from {SEGMENT_RANGES} to {MOST_RANGES}: ranges are "
            f"stored in segments of {SEGMENT_RANGES}"
        )
    return ranges


def _start(value: object) -> OffsetReset | int:
    try:
        return read_start_point(str(value).strip())
    except ValueError as error:
        raise refuse(str(error), "remove the line, so that auto.offset.reset decides, or correct the value") from error


class OwnFlowSettings(KeyModel):
    """Keys of our own that can differ between flows: ``A->B.mm2.…``, then ``mm2.…``."""

    start: Annotated[OffsetReset | int | None, JavaType("STRING"), BeforeValidator(_start)] = flow_key(
        "mm2.start",
        None,
        "Where partitions without a stored offset start: `earliest`, `latest`, or at the first record from a time on, "
        "such as `2026-11-01T00:00:00Z` (their end, if there is none). `latest` is their end when the flow is first "
        "planned; topics and partitions that are created later start at their beginning. Takes precedence over the "
        "source consumer's `auto.offset.reset`, which still decides if a stored offset no longer exists.",
    )

    offset_translation: Annotated[String, one_of("exact", "compatible")] = flow_key(
        "mm2.offset.translation",
        "exact",
        "How group offsets are translated: `exact`, from stored acknowledgements, or `compatible`, as in Java.",
    )
    offset_translation_window: Annotated[TranslationWindow | int, JavaType("STRING"), BeforeValidator(_window)] = (
        flow_key(
            "mm2.offset.translation.window",
            TranslationWindow.RETENTION,
            "How far back the exact offset map goes: `retention`, to the first record that the source still has, or a "
            "number: one record of at most 1.6 KB in its topic for each 32, of each partition. A partition without "
            "gaps needs one record ([how far](topics.md#how-far-back-translation-is-exact)).",
        )
    )
    offset_map_max_bytes: Annotated[
        Long, at_least(1_048_576, "a few hundred partitions with gaps would fill it; the unit is bytes")
    ] = flow_key(
        "mm2.offset.map.max.bytes",
        256 * 1024 * 1024,
        "Maximum bytes of the exact offset map in its topic. Beyond it, the oldest records of the largest partitions "
        "are deleted; translation of positions there is conservative.",
    )
    max_bytes_per_second: Annotated[
        OptionalLong, at_least(1_024, "a batch of a common size would take minutes; the unit is bytes")
    ] = live_key(
        "mm2.max.bytes.per.second",
        None,
        "Maximum bytes per second that the flow fetches from the source, over all nodes: stored batches, ±10 % over "
        "30 s, with one second of burst ([how to](../how-to/limiting-bandwidth.md)). If not set: no limit.",
    )
    copy_returned_topics: Boolean = live_key(
        COPY_RETURNED,
        False,
        "Also replicate topics that are copies of this flow's own remote topics: `x.A.orders` on A, if `A.orders` "
        "exists on B ([why not](topics.md#copies-that-come-back)).",
    )
    on_data_loss: Annotated[String, one_of(*OnDataLoss)] = flow_key(
        "mm2.on.data.loss",
        OnDataLoss.CONTINUE.value,
        "What a loss stops until `mm2 accept-loss` ([what to do](../how-to/troubleshooting.md#a-loss-was-reported)): "
        "`continue`, nothing, as in Java; `stop-partition`, its partition; `stop-flow`, all source tasks of the flow.",
    )
    validate_partitions: Boolean = flow_key(
        "mm2.validate.partitions",
        False,
        "Check once a second that each partition keeps its invariants. A violation is a defect of this program: it "
        "ends the source task with the partition's last events, and the task continues from the stored offsets.",
    )


class UnknownKeys(StrEnum):
    """Values of ``mm2.unknown.keys``."""

    ERROR = "error"
    WARN = "warn"


class FileSettings(KeyModel):
    """Keys about the file itself."""

    clusters: ListOf = live_key("clusters", (), "Aliases of all clusters; a flow is a pair of them. Required.")
    config_providers: ListOf = idle_key(
        "config.providers",
        (),
        "Names of config providers, which replace references such as `${env:NAME}`; each needs "
        "`config.providers.<name>.class`.",
    )
    unknown_keys: Annotated[String, one_of(*UnknownKeys)] = idle_key(
        "mm2.unknown.keys",
        UnknownKeys.ERROR.value,
        "What a line is that looks like a key which selects or protects data, and is none "
        "([which](ignored-keys.md#near-misses)): an `error`, or `warn`, a warning, and the line is ignored as in Java.",
    )
