"""Offsets that are stored under another alias are reported, whatever starts are stored afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.leader.leader_term import AliasCheck
from mm2.node.leader.remote_topics import Discovery
from mm2.node.source.source_offsets import StoredSourceOffsets
from tests.lab.tasks import unconnected_cluster
from tests.unit.config import files

ORDERS = TopicPartition("orders", 0)
DISCOVERY = Discovery(topics=(), partitions=(ORDERS,))


class Offsets(StoredSourceOffsets):
    """Those of an installation that called the source eu, and those of this one, without a cluster."""

    def __init__(self) -> None:
        super().__init__(unconnected_cluster(), "offsets", Flow("A", "B"), source_alias="A", partitions=1)
        self.own: set[TopicPartition] = set()
        self.reads = 0

    async def refresh(self, *, timeout_ms: int = 0) -> None:
        self.reads += 1

    @property
    def stored(self) -> frozenset[TopicPartition]:
        return frozenset(self.own)

    @property
    def under_other_aliases(self) -> Mapping[str, AbstractSet[TopicPartition]]:
        return {"eu": {ORDERS}}


async def test_starts_that_are_stored_under_latest_do_not_hide_the_change(tmp_path: Path) -> None:
    offsets = Offsets()

    async def store_ends(discovery: Discovery) -> Discovery:
        offsets.own.update(discovery.partitions)
        return discovery

    settings = files.flow(tmp_path)
    check = AliasCheck(settings, offsets, then=store_ends)
    assert await check.decide(DISCOVERY) is DISCOVERY
    assert check.warning is not None
    assert "write A->B.source.cluster.alias = eu" in check.warning
    assert offsets.own == {ORDERS}
    later = AliasCheck(settings, offsets, then=store_ends)
    later.checked_by(check)
    await later.decide(DISCOVERY)
    assert (later.warning, offsets.reads) == (check.warning, 1)
