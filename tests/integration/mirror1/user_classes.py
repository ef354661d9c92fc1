"""What a user of MirrorMaker 1 writes in Python: a message handler and a rebalance listener."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from mm2.core.mirror1.user_class import MessageHandler, RebalanceListener, SourceRecord, TargetRecord
from mm2.core.naming.names import TopicPartition


class UpperCase(MessageHandler):
    """Writes values in capitals to a topic with a prefix, which is its argument, and drops tombstones."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def handle(self, record: SourceRecord) -> Sequence[TargetRecord]:
        if record.value is None:
            return []
        return [TargetRecord(topic=self._prefix + record.topic, key=record.key, value=record.value.upper())]


class Journal(RebalanceListener):
    """Writes a line for each change to the file that is its argument."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._write("assigned", partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._write("revoked", partitions)

    def _write(self, what: str, partitions: Collection[TopicPartition]) -> None:
        with self._file.open("a") as file:
            file.write(f"{what} {' '.join(map(str, sorted(partitions)))}\n")


class FailsOnce(RebalanceListener):
    """Raises an error for the next partitions after the file that is its argument was created, and deletes the file."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self._file.unlink()  # of two streams at the same time, one succeeds
        except FileNotFoundError:
            return
        raise RuntimeError(f"cannot use {len(partitions)} partitions")

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing."""
