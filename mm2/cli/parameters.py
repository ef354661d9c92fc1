"""Words of the command line that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

File = Annotated[Path, Parameter(name="FILE", help="The node's mm2.properties.")]
Clusters = Annotated[
    tuple[str, ...],
    Parameter(
        consume_multiple=(1, None),
        negative=(),
        show_default=False,
        help="Only the flows into these clusters, blank-separated.",
    ),
]
Node = Annotated[str, Parameter(name="FILE|URL", help="mm2.properties of the node, or its URL.")]
Watch = Annotated[bool, Parameter(negative=(), show_default=False, help="Show it anew every 2 s until Ctrl-C.")]
Json = Annotated[bool, Parameter(negative=(), show_default=False, help="Print it as JSON, for programs.")]
FlowName = Annotated[
    str | None,
    Parameter(name="--flow", show_default=False, help="The flow, written A->B; the only enabled one if left out."),
]
