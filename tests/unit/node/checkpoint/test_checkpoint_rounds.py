"""The error of a checkpoint round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mm2.core.naming.names import Flow
from mm2.core.wire.formats import Checkpoint
from mm2.kafka.errors import Unreachable
from mm2.node.checkpoint.checkpoint_task import CheckpointRounds
from tests.lab.tasks import unconnected_cluster


async def test_a_failed_write_is_reported_as_a_failed_write() -> None:
    async def no_offsets(*_: Any) -> dict[str, Any]:
        return {}

    async def write(_: Sequence[Checkpoint], __: int) -> None:
        raise Unreachable("the target does not answer")

    unused: Any = None
    rounds = CheckpointRounds(
        Flow("A", "B"),
        unconnected_cluster(),
        unused,
        unused,
        translate=unused,
        latest=unused,
        translated=unused,
        write=write,
        is_own=lambda _: True,
        read_committed=no_offsets,
    )
    with pytest.raises(Unreachable):
        await rounds._translate_groups(["group"])
    assert rounds.doing == "write checkpoints"
