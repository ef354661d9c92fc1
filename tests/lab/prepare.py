"""``python -m tests.lab.prepare [VERSION…]``: everything the lab needs of Kafka, fetched and made ahead of the first
test. Quick when it is there already; without VERSION, all versions that tests use, and what makes Spark start quickly.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.lab import class_data, jars, spark_jvm
from tests.lab.cluster import KafkaCluster
from tests.lab.records import plain, write


def prepare(version: str) -> None:
    """Fetch the jars of a Kafka version, and archive the classes of a broker that has done a little of everything."""
    jars.class_path(version)
    archive = class_data.archive(version)
    if archive.exists():
        return
    print(f"Kafka {version}: making its brokers start quickly, once", flush=True)
    part = class_data.part_of(archive)
    with KafkaCluster("prepare", version=version, java_options=class_data.recording_options(part)) as cluster:
        topic = cluster.create_topic("classes")
        write(cluster.bootstrap, topic, plain(100), codec="lz4")
        cluster.broker(1).stop()  # the archive is written at exit
    part.replace(archive)


def main() -> None:
    with ThreadPoolExecutor(1) as beside:  # a start of Spark and one of brokers use a core each
        spark = beside.submit(_prepare_spark) if len(sys.argv) == 1 else None
        for version in sys.argv[1:] or jars.VERSIONS:
            prepare(version)
        if spark is not None:
            spark.result()


def _prepare_spark() -> None:
    if not spark_jvm.archive().exists():
        print("Spark: making it start quickly, once", flush=True)
        spark_jvm.make()


if __name__ == "__main__":
    main()
