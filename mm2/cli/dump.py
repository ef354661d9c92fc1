"""``mm2 dump``: what a bug report needs, in one archive without secrets."""

from __future__ import annotations

import io
import os
import platform
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from mm2.cli.errors import DONE, CommandError, UsageError
from mm2.cli.file.check import check_file
from mm2.cli.file.explain import explain_file
from mm2.cli.node.node_address import NodeAccess, node_context, node_urls
from mm2.cli.node.node_client import fetch, fetch_flows, fetch_partition, first_answering, read_flows
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load_file
from mm2.core.lanes.partition_steps import FetchStep
from mm2.core.masking import hide, masked
from mm2.core.printable import printable_json
from mm2.node.status.status_model import FlowStatus, PartitionStatus

MOST_PARTITIONS = 100
"""Partitions whose steps and events are in the archive: those with errors, and those that do not just fetch."""

MOST_LINES = 1_000
"""Lines of the node's log."""

_PATHS = {
    "health.json": "/health",
    "flows.json": "/flows",
    "node.json": f"/node?log={MOST_LINES}",
    "metrics.txt": "/metrics",
}


def dump(file: Path, *, to: str | None = None) -> int:
    """Write the archive, and print what is in it. Raises UsageError if FILE cannot be read or the archive exists,
    CommandError if it cannot be written."""
    if not file.is_file():
        raise UsageError(f"{file} is not a file")
    _hide_secrets(file)
    target = Path(to or f"mm2-dump-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    parts = {name: masked(text) for name, text in _parts(file)}
    try:
        _write(target, parts)
    except FileExistsError as error:
        raise UsageError(f"{target} exists: choose another name with --to") from error
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror or error}") from error
    print(f"{target}: {', '.join(parts)}")  # noqa: T201 the output of a command
    print("Read it before you send it: it has no passwords, but names of topics, groups and hosts.")  # noqa: T201
    return DONE


def _hide_secrets(file: Path) -> None:
    """Mask the passwords of all clients of the file: the node masks them in its log, and not in what it serves."""
    loaded, _ = load_file(file, ())
    for flow in () if loaded.settings is None else loaded.settings.flows:
        for role in ClientRole:
            hide(*flow.clients.of(role).secrets)


def _parts(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each part. What the node does not answer is replaced by the reason."""
    yield "versions.txt", _versions()
    yield "problems.txt", _of(lambda out: check_file(file, (), out, with_mode=True))
    yield "settings.txt", _of(lambda out: explain_file(file, None, (), out))
    try:
        urls, context = node_urls(str(file)), node_context(str(file))
        url = first_answering(urls, lambda one: (fetch_flows(one, context), one)[1])
        flows = read_flows(fetch_flows(url, context), url)
    except CommandError as error:
        yield "node-error.txt", f"{error}\n"
        return
    for name, path in _PATHS.items():
        yield name, _answer(partial(fetch, url, context, path))
    yield from _partitions(flows, url, context)


def _versions() -> str:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return f"mm2 {version('mm2')}\nPython {platform.python_version()}\n{platform.platform()}\n{now}\n"


def _of(write: Callable[[io.StringIO], int]) -> str:
    out = io.StringIO()
    write(out)
    return out.getvalue()


def _answer(ask: Callable[[], bytes]) -> str:
    try:
        text = ask().decode(errors="replace")
    except CommandError as error:
        return f"{error}\n"
    return printable_json(text) if text.startswith(("{", "[")) else text


def _partitions(flows: Sequence[FlowStatus], url: str, context: NodeAccess) -> Iterator[tuple[str, str]]:
    for flow, topic, number in _unusual(flows)[:MOST_PARTITIONS]:
        name = f"partitions/{_file_name(f'{flow.source},{flow.target}')}/{_file_name(f'{topic}-{number}')}.json"
        yield name, _answer(partial(fetch_partition, url, context, flow, topic, number))


def _file_name(text: str) -> str:
    """Return a name from the answer of the node, or of what else listens there, as the name of a file in the archive:
    it must not lead out of the directory into which the archive is unpacked."""
    return quote(text, safe=",")


def _unusual(flows: Sequence[FlowStatus]) -> list[tuple[FlowStatus, str, int]]:
    """Return the partitions of which more is to be known, those with errors first."""
    found = [
        (partition.error is None, flow, topic.topic, partition.partition)
        for flow in flows
        for topic in flow.topics
        for partition in topic.partitions
        if not _just_fetches(partition)
    ]
    return [one[1:] for one in sorted(found, key=lambda one: (one[0], one[1].flow, *one[2:]))]


def _just_fetches(partition: PartitionStatus) -> bool:
    return partition.error is None and partition.step in (FetchStep.FETCHING, FetchStep.LIMITED, FetchStep.FULL)


def _write(target: Path, parts: dict[str, str]) -> None:
    closed = partial(os.open, mode=0o600)  # from the start: a user who opens the empty file could read it later
    with open(target, "xb", opener=closed) as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, text in parts.items():
            content = text.encode()
            info = tarfile.TarInfo(f"mm2-dump/{name}")
            info.size, info.mtime, info.mode = len(content), int(time.time()), 0o600
            archive.addfile(info, io.BytesIO(content))
