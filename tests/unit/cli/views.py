"""What a view prints."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from mm2.node.published import NodeStatus
from mm2.rest.shapes import FlowShape


def lines(view: RenderableType) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=200, highlight=False).print(view)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def shapes(status: NodeStatus) -> list[FlowShape]:
    return [FlowShape.of(flow) for flow in status.flows]
