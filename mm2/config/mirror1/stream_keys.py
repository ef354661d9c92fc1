"""The number of streams, as consumer files of Kafka 0.7 have it."""

from __future__ import annotations

from typing import Annotated

from mm2.config.grammar.java_types import Int, at_least
from mm2.config.keys.declaration import KeyModel, node_key
from mm2.config.mirror1.old_keys import STREAMS


class StreamKeys(KeyModel):
    """Read if --num.streams is not given."""

    streams: Annotated[Int, at_least(1)] = node_key(STREAMS, 1, "Number of streams.")
