"""buffer.memory of a Java producer, which limits what a lane holds."""

from __future__ import annotations

from typing import Annotated

from mm2.config.grammar.java_types import Long, at_least
from mm2.config.keys.declaration import KeyModel, node_key


class BufferKeys(KeyModel):
    """Sizes are bytes. The default is that of ``mm2.lane.buffer.bytes``."""

    buffer_memory: Annotated[Long, at_least(1_048_576, "a batch of common size would not fit")] = node_key(
        "buffer.memory",
        64 * 1024 * 1024,
        "Maximum bytes that a lane has fetched and that are not yet acknowledged; it pauses fetching beyond. Default of"
        " a Java producer: 33554432.",
    )
