"""The error of a checkpoint round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mm2.core.naming.names import Flow
from mm2.core.wire.formats import Checkpoint
from mm2.kafka.errors import Unreachable
from mm2.node.checkpoint import checkpoint_rounds
from mm2.node.checkpoint.checkpoint_rounds import CheckpointRounds
from tests.lab.tasks import unconnected_cluster


async def test_a_failed_write_is_reported_as_a_failed_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_offsets(*_: Any, **__: Any) -> dict[str, Any]:
        return {}

    async def write(_: Sequence[Checkpoint], __: int) -> None:
        raise Unreachable("the target does not answer")

    monkeypatch.setattr(checkpoint_rounds, "committed_offsets", no_offsets)
    unused: Any = None
    rounds = CheckpointRounds(
        Flow("A", "B"),
        unconnected_cluster(),
        unused,
        unused,
        translate=unused,
        latest=unused,
        write=write,
        is_own=lambda _: True,
    )
    with pytest.raises(Unreachable):
        await rounds._translate_groups(["group"])
    assert rounds.doing == "write checkpoints"
