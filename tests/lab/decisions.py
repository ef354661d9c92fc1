"""Leaders' decisions and nodes' reports from the internal topics: read first, checked afterwards."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.lab import scratch
from tests.lab.batches import HEADER
from tests.lab.cluster import KafkaCluster
from tests.lab.history import Partitions, read_topic

BASE_OFFSET, LENGTH, PRODUCER_ID, PRODUCER_EPOCH, LAST_DELTA = 0, 1, 9, 10, 6  # of a batch's header
BEFORE_LENGTH = 12  # bytes: the base offset and the length itself

Writer = tuple[int, int]  # a transactional producer's id and epoch: a new one for each time of leading


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One list of one source task, as written to ``mm2-configs.<source>.internal``."""

    offset: int
    source_task: int
    epoch: int
    version: int
    writer: Writer


def newest_lists(cluster: KafkaCluster, topic: str) -> dict[int, dict[str, list[int]]]:
    """Partitions of each source task by topic. Lists in these tests fit into one record."""
    return {
        source_task: dict(message["transformed" if "query" in message else "partitions"])
        for partition in read_topic(cluster.bootstrap, topic).values()
        for record in partition
        if (source_task := _source_task(record.content[0])) is not None and (message := _message(record.content[1]))
    }


def decisions(cluster: KafkaCluster, topic: str) -> list[Decision]:
    """Every committed list, in the order of the topic, which has one partition."""
    partitions = read_topic(cluster.bootstrap, topic)
    writers = _writers(cluster, topic)  # afterwards: a leader that still writes adds records that nobody looks up
    found = []
    for partition in partitions.values():
        for record in partition:
            source_task = _source_task(record.content[0])
            if source_task is not None:
                said = _message(record.content[1])
                found.append(
                    Decision(
                        offset=record.offset,
                        source_task=source_task,
                        epoch=said["epoch"],
                        version=said["version"],
                        writer=writers[record.offset],
                    )
                )
    return found


def verdict(found: list[Decision]) -> list[str]:
    """Return the errors: a list older than the previous one, an epoch with two writers, a writer that returned."""
    wrong = []
    newest: dict[int, Decision] = {}
    of_epoch: defaultdict[int, set[Writer]] = defaultdict(set)
    for one in found:
        before = newest.get(one.source_task)
        if before is not None and (one.epoch, one.version) <= (before.epoch, before.version):
            wrong.append(f"{one} is not newer than {before}")
        newest[one.source_task] = one
        of_epoch[one.epoch].add(one.writer)
    wrong += [f"epoch {epoch} has two writers: {writers}" for epoch, writers in of_epoch.items() if len(writers) > 1]
    wrong += [f"{later} comes after {one}" for one, later in pairwise(found) if later.writer < one.writer]
    return wrong


def owners(cluster: KafkaCluster, topic: str) -> dict[int, list[str]]:
    """Return the nodes that ran each source task in order, from reports in ``mm2-status.<source>.internal``."""
    history: Partitions = read_topic(cluster.bootstrap, topic)
    found: defaultdict[int, list[str]] = defaultdict(list)
    for records in history.values():  # all reports of a source task are in one partition
        for record in records:
            source_task = _source_task(record.content[0])
            if source_task is not None:
                node = str(_message(record.content[1])["node"])
                if found[source_task][-1:] != [node]:
                    found[source_task].append(node)
    return dict(found)


def _source_task(key: bytes | None) -> int | None:
    """The source task of a list's first part, or of a report."""
    name, _, number = (key or b"").decode(errors="replace").rpartition("-")
    return int(number) if name == "mm2-source-task" and number.isdigit() else None


def _message(value: bytes | None) -> dict[str, Any]:
    return dict(json.loads(value or b"{}"))


def _writers(cluster: KafkaCluster, topic: str) -> dict[int, Writer]:
    """Return the writer of each offset of partition 0, from the log on disk of a cluster of one broker."""
    found: dict[int, Writer] = {}
    for segment in sorted((cluster.broker(1).directory / scratch.DATA).glob(f"{topic}-0/*.log")):
        content = segment.read_bytes()
        place = 0
        while place + HEADER.size <= len(content):
            fields = HEADER.unpack_from(content, place)
            if not fields[LENGTH]:
                break  # preallocated by the broker and not written yet
            writer = (fields[PRODUCER_ID], fields[PRODUCER_EPOCH])
            first = fields[BASE_OFFSET]
            found |= dict.fromkeys(range(first, first + fields[LAST_DELTA] + 1), writer)
            place += BEFORE_LENGTH + fields[LENGTH]
    return found
