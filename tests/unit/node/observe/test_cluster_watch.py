"""Clusters of which no broker answers; those that do are in tests/integration/test_observed_source.py."""

from __future__ import annotations

from pathlib import Path

from mm2.node.observe.cluster_watch import ClusterWatch
from tests.lab.waiting import until
from tests.unit.config import files

NOBODY = "A.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\n"
FAILED_S = 20.0


async def test_clusters_that_refuse_connections(tmp_path: Path) -> None:
    flows = files.settings(tmp_path, NOBODY).flows
    watch = ClusterWatch(flows)
    assert [(one.alias, one.reachable, one.error) for one in watch.status()] == [("A", None, None), ("B", None, None)]
    watch.start()
    try:
        found = await until(
            watch.status, FAILED_S, "both have failed", accept=lambda found: {one.reachable for one in found} == {False}
        )
        assert [one.alias for one in found] == ["A", "B"]
        assert all(one.error is not None and "connection refused" in one.error for one in found)
        assert all(one.answered is None and one.since is not None for one in found)
        await watch.use(files.settings(tmp_path, NOBODY.replace("127.0.0.1:1", "127.0.0.1:2", 1)).flows)
        await until(
            watch.status,
            FAILED_S,
            "the new address of A is asked",
            accept=lambda found: found[0].error is not None and "127.0.0.1:2" in found[0].error,
        )
        await watch.use([])
        assert watch.status() == ()
    finally:
        await watch.close()
