"""``mm2 pause``, ``resume``, ``restart`` and ``refresh``: what operators ask of a flow, through any of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import quote, urlsplit

from cyclopts import Parameter

from mm2.cli.node_address import admin_token, node_context, node_urls
from mm2.cli.node_client import first_answering, send_command
from mm2.cli.parameters import Node
from mm2.cli.trouble import DONE, UsageError
from mm2.config.environment import Environment

Flow = Annotated[str, Parameter(name="--flow", help="The flow, written A->B.")]
Topics = Annotated[
    tuple[str, ...],
    Parameter(
        name="--topic",
        consume_multiple=(1, None),
        negative=(),
        show_default=False,
        help="Only these, blank-separated, by their names on the source.",
    ),
]
Task = Annotated[str, Parameter(name="TASK", help="The task, for example MirrorSourceConnector-0.")]


def pause(node: Node, /, *, flow: Flow, topic: Topics = ()) -> int:
    """Pause a flow or topics. Raises CommandError."""
    return _command(node, flow, "pause", {"topics": topic})


def resume(node: Node, /, *, flow: Flow, topic: Topics = ()) -> int:
    """End a pause. Raises CommandError."""
    return _command(node, flow, "resume", {"topics": topic})


def restart(node: Node, task: Task, /, *, flow: Flow) -> int:
    """Restart one task. Raises CommandError."""
    return _command(node, flow, f"tasks/{quote(task, safe='')}/restart", {})


def refresh(node: Node, /, *, flow: Flow) -> int:
    """Look for topics and groups now. Raises CommandError."""
    return _command(node, flow, "refresh", {})


def _command(place: str, flow: str, what: str, body: Mapping[str, object]) -> int:
    source, arrow, target = flow.replace(" ", "").partition("->")
    if not (source and arrow and target):
        raise UsageError(f"{flow!r} is no flow: write --flow 'A->B', in quotes, for shells read > otherwise")
    path = f"/flows/{quote(source, safe='')}/{quote(target, safe='')}/{what}"
    urls = [url for url in node_urls(place) if _is_safe(url)]
    if not urls:
        raise UsageError(
            f"the token would cross the network in plain text on the way to {', '.join(node_urls(place))}: name an "
            "https URL, or ask on the node's own machine, by 127.0.0.1"
        )
    token, context = admin_token(place, Environment()), node_context(place)
    taken = first_answering(urls, lambda url: send_command(url, context, path=path, body=body, token=token))
    print(f"{taken.flow}: {taken.effect} (node {taken.node})")  # noqa: T201 a command's answer
    return DONE


def _is_safe(url: str) -> bool:
    """Whether nobody on the way can read what is sent there."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "http" or parts.hostname == "localhost":
        return True  # what is no URL at all is told so when it is asked
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
