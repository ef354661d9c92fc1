"""Settings of the client that reads a group: servers, and the properties file of ``--command-config``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mm2.cli.errors import UsageError
from mm2.config.clients.client_keys import AdminKeys
from mm2.config.clients.client_reader import ClientReader
from mm2.config.grammar import providers
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry, read_file
from mm2.config.grammar.values import Properties, Value
from mm2.core.settings.client import ClientSettings

CLIENT_ID = "ConsumerOffsetChecker"
"""Java's client ID, which brokers log."""

_UNKNOWN = ("unknown:1",)
"""Servers that ZooKeeper will replace: it is asked only after the file is found to be valid."""

_SERVER = re.compile(r"\[?[\w.%:-]+\]?:[0-9]{1,5}", re.ASCII)


def read_servers(text: str) -> tuple[str, ...]:
    """Return the servers of ``--bootstrap-server``. Raises UsageError."""
    servers = tuple(one.strip() for one in text.split(",") if one.strip())
    wrong = [one for one in servers if not _SERVER.fullmatch(one)]
    if wrong or not servers:
        raise UsageError(f"--bootstrap-server {text}: must be a comma-separated host:port list")
    return servers


def read_client_settings(
    file: Path | None, servers: Sequence[str], *, timeout_ms: int, backoff_ms: int
) -> ClientSettings:
    """Return the settings for these servers (none: not known yet), with Java's admin client keys of ``file``.

    Its request.timeout.ms and retry.backoff.ms have priority. Raises UsageError with the file's first error.
    """
    properties: Properties = {}
    log = ProblemLog(str(file or "properties"))
    if file is not None:
        entries = read_file(file, log)
        if entries is not None:
            properties = {key: Value.of(entry) for key, entry in providers.resolve(entries, log).items()}
    properties["bootstrap.servers"] = Value(",".join(servers or _UNKNOWN))
    nowhere = Entry(file=str(file), line=0, key="", raw="", value="")
    settings = ClientReader(clusters=nowhere, problems=log).read(properties, AdminKeys, "", CLIENT_ID)
    if log.failed:
        raise UsageError(next(str(problem) for problem in log.in_order() if not problem.is_warning))
    if "request.timeout.ms" not in properties:
        settings = replace(settings, request_timeout_ms=timeout_ms)
    if "retry.backoff.ms" not in properties:
        settings = replace(
            settings,
            retry_backoff_ms=backoff_ms,
            retry_backoff_max_ms=max(backoff_ms, settings.retry_backoff_max_ms),
        )
    return settings
