"""The file of --producer.config: the target cluster, and properties of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mm2.config.checks.spark import MASTER, check_modes, check_protection, checked_master
from mm2.config.clients.client_reader import ClientReader
from mm2.config.clients.ignored_client_keys import ClientKind
from mm2.config.grammar.java_types import Long, at_least
from mm2.config.grammar.properties import Entry
from mm2.config.keys import declaration
from mm2.config.keys.declaration import KeyModel, node_key
from mm2.config.keys.node_keys import EngineSettings
from mm2.config.mirror1.client_file import ClientFile
from mm2.config.mirror1.options import PROGRAM
from mm2.core.settings.client import ClientSettings, ProduceSettings
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect


class BufferKeys(KeyModel):
    """Sizes are bytes. The default is that of ``mm2.lane.buffer.bytes``."""

    buffer_memory: Annotated[Long, at_least(1_048_576, "a batch of common size would not fit")] = node_key(
        "buffer.memory",
        64 * 1024 * 1024,
        "Maximum bytes that a lane has fetched and that are not yet acknowledged; it pauses fetching beyond. Default of"
        " a Java producer: 33554432.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFile:
    """The file and its settings, which are only valid if ``file.problems`` have no error."""

    file: ClientFile
    client: ClientSettings
    zookeeper: ZooKeeperConnect | None
    produce: ProduceSettings
    lane_buffer_bytes: int
    spark: Mapping[str, str]
    hidden_spark: frozenset[str]
    engine: EngineSettings


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
    spark = {name: value for name, value in file.properties.items() if name.startswith("spark.")}
    engine = declaration.read(EngineSettings, file.properties, file.problems)
    _check_spark(file, engine)
    return ProducerFile(
        file=file,
        client=file.client((own_id.text.strip() if own_id is not None else "") or PROGRAM),
        zookeeper=file.zookeeper(),
        produce=reader.produce(file.properties),
        lane_buffer_bytes=declaration.read(BufferKeys, file.properties, file.problems).buffer_memory,
        spark={name: value.text for name, value in spark.items()},
        hidden_spark=frozenset(name for name, value in spark.items() if value.is_hidden),
        engine=engine,
    )


def _check_spark(file: ClientFile, engine: EngineSettings) -> None:
    check_modes(file.properties, file.problems)
    master = checked_master(file.properties, file.problems)
    if master is None:
        return
    if not master.elsewhere:
        check_protection(master, file.properties, engine, file.problems)
    else:
        file.properties[MASTER].refuse(
            file.problems,
            f"must be on this machine: {PROGRAM} has no listener for lanes on other machines",
            "remove the line; mm2 run replicates with lanes on other machines (see mm2 migrate-mm1 --help)",
        )
