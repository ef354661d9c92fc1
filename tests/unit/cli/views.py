"""The printed output of views."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from mm2.node.status.status_model import FlowStatus, NodeStatus


def lines(view: RenderableType) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=200, highlight=False).print(view)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def shapes(status: NodeStatus) -> list[FlowStatus]:
    return list(status.flows)
