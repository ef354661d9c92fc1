from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.reload.fingerprint import differ, differing, digest, terms
from mm2.config.settings import FlowSettings
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import read

PLAIN = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";\n'
)


def fingerprint_terms(directory: Path, lines: str = "", *, base: str = CLUSTERS) -> dict[str, str]:
    reading = read(directory, lines, base=base)
    flow: FlowSettings = reading.settings.flows[0]
    return terms(reading, flow)


def test_only_values_that_differ_from_the_default(tmp_path: Path) -> None:
    assert fingerprint_terms(tmp_path) == {"enabled": "true"}
    assert fingerprint_terms(tmp_path, "tasks.max = 1\nmm2.offset.translation = exact\n") == {"enabled": "true"}
    assert fingerprint_terms(tmp_path, "A->B.tasks.max = 3\nmm2.offset.translation = compatible\n") == {
        "enabled": "true",
        "mm2.offset.translation": "compatible",
        "tasks.max": "3",
    }


def test_keys_are_named_as_in_a_file(tmp_path: Path) -> None:
    lines = (
        "A.consumer.isolation.level = read_committed\nB.producer.compression.type = zstd\nB.session.timeout.ms = 9000\n"
        "B.admin.request.timeout.ms = 5\nB.request.timeout.ms = 6\noffset.storage.segment.bytes = 9\n"
    )
    assert fingerprint_terms(tmp_path, lines) == {
        "A->B.producer.override.compression.type": "zstd",
        "A.consumer.isolation.level": "read_committed",
        "B.admin.request.timeout.ms": "5",
        "B.offset.storage.segment.bytes": "9",
        "B.request.timeout.ms": "6",
        "B.session.timeout.ms": "9000",
        "enabled": "true",
    }


def test_order_notation_and_prefix_do_not_matter(tmp_path: Path) -> None:
    mine = fingerprint_terms(tmp_path, "topics = a,b\ntasks.max = 4\n")
    theirs = fingerprint_terms(tmp_path, "# other text\nA->B.tasks.max = +4\nA->B.topics: a, b\n")
    assert mine == theirs
    assert digest(mine) == digest(theirs) == digest(dict(reversed(mine.items())))
    assert not differ(digest(mine), digest(theirs))
    assert differing(mine, theirs) == ()


def test_addresses_racks_and_passwords_can_differ(tmp_path: Path) -> None:
    near = CLUSTERS.replace("a:9092", "near.a:9092")
    mine = fingerprint_terms(tmp_path, PLAIN.format("sesame") + "A.consumer.client.rack = r1\nmm2.lanes = 1\n")
    theirs = fingerprint_terms(
        tmp_path, "A.consumer.client.rack = r2\nspark.master = local[3]\nB.client.id = x\n", base=near
    )
    assert mine == theirs == {"enabled": "true"}


def test_differing_keys_are_named(tmp_path: Path) -> None:
    mine = fingerprint_terms(tmp_path, "topics = a\ntasks.max = 4\ngroups = g\n")
    theirs = fingerprint_terms(tmp_path, "topics = b\ngroups = g\nA.consumer.auto.offset.reset = latest\n")
    assert differ(digest(mine), digest(theirs))
    assert differing(mine, theirs) == ("A.consumer.auto.offset.reset", "tasks.max", "topics")


def test_other_formats_are_not_compared(tmp_path: Path) -> None:
    mine = digest(fingerprint_terms(tmp_path))
    assert mine == "1-01bacda60ed0266f", "increment FORMAT when the contents of the digest change"
    assert not differ(mine, "2-0000000000000000")
    assert differ(mine, "1-0000000000000000")


def test_secrets_of_user_classes_are_compared_by_presence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agreement_acme.py").write_text(
        "from mm2.core.plugins import TopicFilter\n"
        "class Some(TopicFilter):\n    def should_replicate_topic(self, topic): return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    chosen = "A->B.topic.filter.class = agreement_acme:Some\n"
    without = fingerprint_terms(tmp_path, chosen)
    mine = fingerprint_terms(tmp_path, chosen + "A->B.acme.password = sesame\nA->B.acme.word = x\n")
    theirs = fingerprint_terms(tmp_path, chosen + "A->B.acme.password = simsim\nA->B.acme.word = x\n")
    assert mine == theirs == without | {"acme.password": "[hidden]", "acme.word": "x"}


def test_heartbeat_only_flow(tmp_path: Path) -> None:
    reading = read(tmp_path, "topics = a\nemit.heartbeats.interval.seconds = 5\n")
    assert terms(reading, reading.settings.flows[1]) == {"emit.heartbeats.interval.seconds": "5"}
