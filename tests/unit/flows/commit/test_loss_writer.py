"""When a loss was noticed, as its lane reports it."""

from __future__ import annotations

from dataclasses import replace

from flows.commit.loss_writer import LossWriter
from mm2.core.lanes.losses import Loss

LOSS = Loss(topic="orders", partition=0, first=10, until=25, reason="gone", kind="retention")


def test_a_loss_keeps_the_time_when_it_was_noticed() -> None:
    writer = LossWriter(None, None)
    writer.lost(LOSS)
    (first,) = writer.newest
    assert first.time is not None
    writer.lost(replace(LOSS, until=40))
    assert writer.newest == (replace(first, until=40),), "it has grown"
    accepted = replace(LOSS, first=50, until=60, time=7).accept(at=8, by="ann", reason=None)
    writer.lost(accepted)
    assert writer.newest[-1] == accepted
