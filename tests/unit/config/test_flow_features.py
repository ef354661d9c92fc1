"""The ACLs of files: features that are off need none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mm2.config.flow_features import features_of
from mm2.config.load import load
from mm2.core.access.required_acls import OTHER_PROGRAMS, FlowFeatures, RequiredAcl, required_acls
from mm2.core.access.rights import on_group, on_topic
from mm2.core.topics.acls import Operation

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders
A->B.groups = billing
A->B.heartbeats.replication.enabled = false
"""


def features(directory: Path, extra: str = "") -> FlowFeatures:
    file = directory / "mm2.properties"
    file.write_text(FILE + extra)
    settings = load(file).settings
    assert settings is not None
    return features_of(settings.flows)[0]


def texts(found: FlowFeatures) -> set[str]:
    return {str(one) for one in required_acls(found) if one.role not in OTHER_PROGRAMS}


def removed(directory: Path, extra: str) -> set[str]:
    """Return the ACLs that are not needed with these lines."""
    with_lines = texts(features(directory, extra))
    without = texts(features(directory))
    assert with_lines <= without
    return without - with_lines


@pytest.mark.parametrize(
    ("line", "unneeded"),
    [
        ("A->B.sync.topic.acls.enabled = false", {"DESCRIBE on cluster A", "ALTER on cluster B"}),
        ("A->B.sync.topic.acls.interval.seconds = -1", {"DESCRIBE on cluster A", "ALTER on cluster B"}),
        ("A->B.sync.topic.configs.enabled = false", {"ALTER_CONFIGS on topic A.orders of cluster B"}),
        ("A->B.sync.topic.configs.interval.seconds = -1", {"ALTER_CONFIGS on topic A.orders of cluster B"}),
        (
            "A->B.emit.heartbeats.enabled = false",
            {f"{operation} on topic heartbeats of cluster B" for operation in ("CREATE", "READ", "WRITE")},
        ),
        (
            "A->B.mm2.offset.translation = compatible",
            {
                f"{operation} on topic mm2-exact-offsets.A.internal of cluster B"
                for operation in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")
            },
        ),
        (
            "A->B.emit.checkpoints.enabled = false",
            {
                "DESCRIBE on group billing of cluster A",
                "READ on topic mm2-offset-syncs.B.internal of cluster A",
                *(f"{one} on topic A.checkpoints.internal of cluster B" for one in ("CREATE", "READ", "WRITE")),
            },
        ),
        (
            "B.producer.enable.idempotence = false",
            {
                "WRITE on transactional id with prefix A-mm2-MirrorSourceConnector- of cluster B",
                "READ on topic A.orders of cluster B",
            },
        ),
        ("B.exactly.once.source.support = enabled", {"READ on topic A.orders of cluster B"}),
    ],
)
def test_a_feature_that_is_off_needs_no_acl(tmp_path: Path, line: str, unneeded: set[str]) -> None:
    assert removed(tmp_path, f"{line}\n") == unneeded


def test_offset_syncs_on_the_target(tmp_path: Path) -> None:
    found = texts(features(tmp_path, "A->B.offset-syncs.topic.location = target\n"))
    assert "WRITE on topic mm2-offset-syncs.A.internal of cluster B" in found
    assert not any("offset-syncs.B" in one for one in found)


def test_without_offset_syncs_there_are_no_checkpoints(tmp_path: Path) -> None:
    found = texts(features(tmp_path, "A->B.emit.offset-syncs.enabled = false\n"))
    assert not any("offset-syncs" in one or "checkpoints" in one for one in found)


def test_features_that_are_off_by_default(tmp_path: Path) -> None:
    extra = "A->B.sync.group.offsets.enabled = true\nA->B.errors.tolerance = all\n"
    assert texts(features(tmp_path, extra)) - texts(features(tmp_path)) == {
        "READ on group billing of cluster B",
        "CREATE on topic mm2-dead-letters.A.internal of cluster B",
        "WRITE on topic mm2-dead-letters.A.internal of cluster B",
    }


def test_replicated_heartbeats_of_further_flows(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nC.bootstrap.servers = c:1\n"
        "B->C.enabled = true\nA->B.enabled = true\nB->C.topics = orders\n"
    )
    settings = load(file).settings
    assert settings is not None
    found = next(one for one in features_of(settings.flows) if str(one.flow) == "B->C")
    assert found.upstream_heartbeats == ("A.heartbeats", "heartbeats")
    assert {"READ on topic A.heartbeats of cluster B", "WRITE on topic B.A.heartbeats of cluster C"} <= texts(found)


def test_heartbeats_only_need_no_topics(tmp_path: Path) -> None:
    only = replace(features(tmp_path), replicates=False, checkpoints=None, fences=False)
    assert {one.cluster for one in required_acls(only)} == {"B"}
    assert not any("A.orders" in str(one) or "losses" in str(one) for one in required_acls(only))


def test_checkpoints_without_known_offset_syncs(tmp_path: Path) -> None:
    assert not any("offset-syncs" in text for text in texts(replace(features(tmp_path), offset_syncs=None)))


def test_a_custom_filter_can_select_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_topics.py").write_text(
        "class Own:\n    def should_replicate_topic(self, topic):\n        return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = texts(features(tmp_path, "A->B.topic.filter.class = own_topics:Own\n"))
    assert {"READ on topic * of cluster A", "WRITE on topic with prefix A. of cluster B"} <= found


def test_an_acl_allows_what_it_implies(tmp_path: Path) -> None:
    def one(text: str) -> RequiredAcl:
        return next(acl for acl in required_acls(features(tmp_path)) if str(acl) == text)

    read = one("READ on topic orders of cluster A")
    assert read.allows(on_topic(Operation.DESCRIBE, "orders"))
    assert read.allows(on_topic(Operation.READ, "orders", "A"))
    assert not read.allows(on_topic(Operation.READ, "orders", "B"))
    assert not read.allows(on_topic(Operation.READ, "orders-2", "A"))
    assert not read.allows(on_topic(Operation.DESCRIBE_CONFIGS, "orders", "A"))
    assert not read.allows(on_group(Operation.READ, "orders", "A"))
