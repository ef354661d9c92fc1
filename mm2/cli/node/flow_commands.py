"""Commands to a flow, such as ``mm2 pause``, ``accept-loss`` and ``copy-again``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from mm2.cli.errors import DONE, FAILED, UsageError
from mm2.cli.node.node_address import NodeAccess, admin_token, is_safe, node_context, node_urls
from mm2.cli.node.node_client import fetch_flows, first_answering, read_flows, send_command
from mm2.cli.parameters import whole_number
from mm2.config.grammar.environment import Environment
from mm2.core.printable import printable_lines
from mm2.core.settings.client import OffsetReset, read_start_point
from mm2.rest.public.response_bodies import CommandResponse


def pause(node: str, *, flow: str, topic: Sequence[str] = (), reason: str | None = None) -> int:
    """Pause a flow or topics. ``reason``, of this and the others: why. Raises CommandError."""
    return _command(node, flow, "pause", {"topics": topic}, reason)


def resume(node: str, *, flow: str, topic: Sequence[str] = (), reason: str | None = None) -> int:
    """Resume a flow or topics. Raises CommandError."""
    return _command(node, flow, "resume", {"topics": topic}, reason)


def restart(node: str, task: str, *, flow: str, reason: str | None = None) -> int:
    """Restart one task. Raises CommandError."""
    return _command(node, flow, f"tasks/{quote(task, safe='')}/restart", {}, reason)


def refresh(node: str, *, flow: str, reason: str | None = None) -> int:
    """Read topics and groups now. Raises CommandError."""
    return _command(node, flow, "refresh", {}, reason)


def accept_loss(
    node: str,
    *,
    topic: str | None = None,
    partition: str | None = None,
    flow: str | None = None,
    reason: str | None = None,
) -> int:
    """Accept losses, and continue after those that stopped a partition or a flow. Raises CommandError."""
    body: dict[str, object] = {} if topic is None else {"topic": topic}
    if partition is not None:
        if topic is None:
            raise UsageError("--partition needs --topic")
        body["partition"] = whole_number("--partition", partition, "a partition number")
    return _command(node, flow or _only_flow(node), "accept-loss", body, reason)


def skip(
    node: str, *, topic: str, partition: str, offset: str, flow: str | None = None, reason: str | None = None
) -> int:
    """Skip what cannot be copied at a source offset. Raises CommandError."""
    body = {
        "topic": topic,
        "partition": whole_number("--partition", partition, "a partition number"),
        "offset": whole_number("--offset", offset, "an offset"),
    }
    return _command(node, flow or _only_flow(node), "skip", body, reason)


def copy_again(
    node: str,
    *,
    flow: str,
    topic: str,
    partition: str | None = None,
    start: str | None = None,
    yes: bool = False,
    reason: str | None = None,
) -> int:
    """Copy a topic again from ``start``, an offset or a time, after a confirmation. Raises CommandError.

    Without ``yes`` it says what it would do, and asks. Without a terminal it raises UsageError and changes nothing.
    """
    body: dict[str, object] = {"topic": topic, **_start(start)}
    if partition is not None:
        body["partition"] = whole_number("--partition", partition, "a partition number")
    if not yes:
        _show(_send(node, flow, "copy-again", {**body, "dry_run": True}, reason))
        if not sys.stdin.isatty():
            raise UsageError("nothing was changed: standard input is no terminal, so confirm with --yes")
        sys.stdout.flush()
        print("Copy again? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201 a question
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("nothing was changed", file=sys.stderr)  # noqa: T201
            return FAILED
    return _command(node, flow, "copy-again", {**body, "yes": yes}, reason)


def _start(text: str | None) -> dict[str, object]:
    """Return the part of the body that says from where records are copied again. Raises UsageError."""
    if text is None or text == OffsetReset.EARLIEST:
        return {}
    if text.isascii() and text.isdigit():
        return {"offset": int(text)}
    try:
        time = read_start_point(text)
    except ValueError as error:
        raise UsageError(f"--from {text}: {error}, or an offset") from error
    if isinstance(time, OffsetReset):
        raise UsageError(f"--from {text}: nothing is copied again from the end; write earliest, an offset or a time")
    return {"time": time}


def _only_flow(node: str) -> str:
    """Return the only enabled flow of a node. Raises CommandError."""
    context = _context(node)
    flows = first_answering(node_urls(node), lambda url: read_flows(fetch_flows(url, context), url))
    enabled = [flow.flow for flow in flows if flow.enabled]
    if len(enabled) != 1:
        raise UsageError(f"add --flow 'A->B'; enabled flows: {', '.join(enabled) or 'none'}")
    return enabled[0]


def _context(node: str) -> NodeAccess:
    return replace(node_context(node), token=admin_token(node, Environment()))


def _command(node: str, flow: str, what: str, body: Mapping[str, object], reason: str | None) -> int:
    _show(_send(node, flow, what, body, reason))
    return DONE


def _send(node: str, flow: str, what: str, body: Mapping[str, object], reason: str | None) -> CommandResponse:
    source, arrow, target = flow.replace(" ", "").partition("->")
    if not (source and arrow and target):
        raise UsageError(
            f"{flow!r} is not a flow: write --flow 'A->B', in quotes, because > redirects output in shells"
        )
    path = f"/flows/{quote(source, safe='')}/{quote(target, safe='')}/{what}"
    if reason is not None:
        path += f"?reason={quote(reason, safe='')}"
    urls = [url for url in node_urls(node) if is_safe(url)]
    if not urls:
        raise UsageError(
            f"the token would be sent unencrypted to {', '.join(node_urls(node))}: use an https URL, or run the "
            "command on the node's own machine with 127.0.0.1"
        )
    context = _context(node)
    return first_answering(urls, lambda url: send_command(url, context, path=path, body=body))


def _show(taken: CommandResponse) -> None:
    where = "" if taken.effect.endswith(f"node {taken.node}") else f" (node {taken.node})"
    print(printable_lines(f"{taken.flow}: {taken.effect}{where}"))  # noqa: T201 the output of a command
