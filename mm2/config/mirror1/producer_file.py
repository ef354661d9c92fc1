"""The file of --producer.config: the target cluster, and properties of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mm2.config.checks.spark import MASTER, check_modes
from mm2.config.clients.client_reader import ClientReader
from mm2.config.clients.ignored_client_keys import ClientKind
from mm2.config.grammar.properties import Entry
from mm2.config.keys import declaration
from mm2.config.mirror1.buffer_keys import BufferKeys
from mm2.config.mirror1.client_file import ClientFile
from mm2.config.mirror1.options import PROGRAM
from mm2.core.settings.client import ClientSettings, ProduceSettings
from mm2.core.settings.spark_master import read_master
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFile:
    """The file and its settings, which are only valid if ``file.problems`` have no error."""

    file: ClientFile
    client: ClientSettings
    zookeeper: ZooKeeperConnect | None
    produce: ProduceSettings
    lane_buffer_bytes: int
    spark: Mapping[str, str]


def read_producer(path: Path) -> ProducerFile:
    """Read the file at ``path``.

    acks=all is the default, as in Java. The default of five batches in flight keeps the order, too, because the
    producer is idempotent; MirrorMaker 1 had one.
    """
    file = ClientFile.read(path, ClientKind.PRODUCER)
    reader = ClientReader(
        clusters=Entry(file=str(path), line=1, key="bootstrap.servers", raw="", value=""), problems=file.problems
    )
    own_id = file.properties.get("client.id")
    spark = {name: value.text for name, value in file.properties.items() if name.startswith("spark.")}
    _check_spark(file)
    return ProducerFile(
        file=file,
        client=file.client((own_id.text.strip() if own_id is not None else "") or PROGRAM),
        zookeeper=file.zookeeper(),
        produce=reader.produce(file.properties),
        lane_buffer_bytes=declaration.read(BufferKeys, file.properties, file.problems).buffer_memory,
        spark=spark,
    )


def _check_spark(file: ClientFile) -> None:
    check_modes(file.properties, file.problems)
    master = file.properties.get(MASTER)
    if master is None:
        return
    try:
        elsewhere = read_master(master.text).elsewhere
    except ValueError as rule:
        master.refuse(file.problems, str(rule), "correct the line, or remove it to run lanes on this machine")
        return
    if elsewhere:
        master.refuse(
            file.problems,
            f"must be on this machine: {PROGRAM} has no listener for lanes on other machines",
            "remove the line; mm2 run replicates with lanes on other machines (see mm2 migrate-mm1 --help)",
        )
