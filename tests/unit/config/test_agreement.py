from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.agreement import differ, differing, digest, terms
from mm2.config.settings import FlowSettings
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import read

PLAIN = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";\n'
)


def agreed(directory: Path, lines: str = "", *, base: str = CLUSTERS) -> dict[str, str]:
    reading = read(directory, lines, base=base)
    flow: FlowSettings = reading.settings.flows[0]
    return terms(reading, flow)


def test_only_what_is_not_the_default(tmp_path: Path) -> None:
    assert agreed(tmp_path) == {"enabled": "true"}
    assert agreed(tmp_path, "tasks.max = 1\nmm2.offset.translation = exact\n") == {"enabled": "true"}
    assert agreed(tmp_path, "A->B.tasks.max = 3\nmm2.offset.translation = compatible\n") == {
        "enabled": "true",
        "mm2.offset.translation": "compatible",
        "tasks.max": "3",
    }


def test_names_are_those_one_would_write(tmp_path: Path) -> None:
    lines = (
        "A.consumer.isolation.level = read_committed\nB.producer.compression.type = zstd\nB.session.timeout.ms = 9000\n"
        "B.admin.request.timeout.ms = 5\nB.request.timeout.ms = 6\noffset.storage.segment.bytes = 9\n"
    )
    assert agreed(tmp_path, lines) == {
        "A->B.producer.override.compression.type": "zstd",
        "A.consumer.isolation.level": "read_committed",
        "B.admin.request.timeout.ms": "5",
        "B.offset.storage.segment.bytes": "9",
        "B.request.timeout.ms": "6",
        "B.session.timeout.ms": "9000",
        "enabled": "true",
    }


def test_order_writing_and_place_do_not_matter(tmp_path: Path) -> None:
    mine = agreed(tmp_path, "topics = a,b\ntasks.max = 4\n")
    theirs = agreed(tmp_path, "# other words\nA->B.tasks.max = +4\nA->B.topics: a, b\n")
    assert mine == theirs
    assert digest(mine) == digest(theirs) == digest(dict(reversed(mine.items())))
    assert not differ(digest(mine), digest(theirs))
    assert differing(mine, theirs) == ()


def test_nodes_may_differ_in_addresses_racks_and_passwords(tmp_path: Path) -> None:
    near = CLUSTERS.replace("a:9092", "near.a:9092")
    mine = agreed(tmp_path, PLAIN.format("sesame") + "A.consumer.client.rack = r1\nmm2.lanes = 1\n")
    theirs = agreed(tmp_path, "A.consumer.client.rack = r2\nspark.master = local[3]\nB.client.id = x\n", base=near)
    assert mine == theirs == {"enabled": "true"}


def test_what_differs_is_named(tmp_path: Path) -> None:
    mine = agreed(tmp_path, "topics = a\ntasks.max = 4\ngroups = g\n")
    theirs = agreed(tmp_path, "topics = b\ngroups = g\nA.consumer.auto.offset.reset = latest\n")
    assert differ(digest(mine), digest(theirs))
    assert differing(mine, theirs) == ("A.consumer.auto.offset.reset", "tasks.max", "topics")


def test_another_format_says_nothing(tmp_path: Path) -> None:
    mine = digest(agreed(tmp_path))
    assert mine == "1-01bacda60ed0266f", "raise FORMAT when what goes into a digest changes"
    assert not differ(mine, "2-0000000000000000")
    assert differ(mine, "1-0000000000000000")


def test_secrets_of_own_classes_are_there_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agreement_acme.py").write_text(
        "from mm2.core.plugins import TopicFilter\n"
        "class Some(TopicFilter):\n    def should_replicate_topic(self, topic): return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    chosen = "A->B.topic.filter.class = agreement_acme:Some\n"
    without = agreed(tmp_path, chosen)
    mine = agreed(tmp_path, chosen + "A->B.acme.password = sesame\nA->B.acme.word = x\n")
    theirs = agreed(tmp_path, chosen + "A->B.acme.password = simsim\nA->B.acme.word = x\n")
    assert mine == theirs == without | {"acme.password": "[hidden]", "acme.word": "x"}


def test_a_flow_that_only_writes_heartbeats(tmp_path: Path) -> None:
    reading = read(tmp_path, "topics = a\nemit.heartbeats.interval.seconds = 5\n")
    assert terms(reading, reading.settings.flows[1]) == {"emit.heartbeats.interval.seconds": "5"}
