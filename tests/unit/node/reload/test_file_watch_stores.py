"""The watch on a file whose trust store cannot be used at the moment."""

from __future__ import annotations

from pathlib import Path

from mm2.node.reload.file_watch import FileChanged, FileInvalid
from tests.unit.config.security.tls.issued import issue
from tests.unit.node.reload.watched_file import WatchedFile, keys_of


def with_store(store: Path) -> str:
    return f"A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.truststore.location = {store}\n"


async def test_a_node_that_waits_for_a_store_follows_its_file(tmp_path: Path) -> None:
    """The node started without the store. Another change is applied, and the store when it is there."""
    store = tmp_path / "ca.pem"
    watched = WatchedFile(tmp_path, with_store(store))
    watched.clock.at(5, lambda: watched.write(with_store(store) + "tasks.max = 4\n"))
    watched.clock.at(15, lambda: store.write_text(issue("ca")[0]))
    first, second = await watched.run()
    assert keys_of(first[1]) == ["tasks.max"]
    assert isinstance(first[1], FileChanged)
    assert ["cannot be read" in str(problem) for problem in first[1].warnings] == [True]
    assert set(keys_of(second[1])) == {"A.ssl.truststore.location"}  # of both flows of A


async def test_a_store_that_vanishes_keeps_the_former_one(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_text(issue("ca")[0])
    watched = WatchedFile(tmp_path, with_store(store))
    before = watched.watch.reading
    watched.clock.at(5, store.unlink)
    ((_, event),) = await watched.run()
    assert isinstance(event, FileInvalid)
    assert watched.watch.reading is before
