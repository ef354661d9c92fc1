"""Names of remote and internal topics under another separator (mm2-compat §2.1, §7)."""

from __future__ import annotations

from tests.integration.shared_node import SharedNode, exists
from tests.lab.records import plain, write


def test_another_separator_names_topics(shared: SharedNode) -> None:
    flow = shared.unusual  # replication.policy.separator=_, offset-syncs.topic.location=target
    topic = flow.named("underscored")
    flow.source.create_topic(topic)
    shared.node.flow(flow.name)
    write(flow.source.bootstrap, topic, plain(10))

    flow.wait_state(topic, "RUNNING")
    assert flow.status(topic)["remote_topic"] == f"{flow.source_alias}_{topic}"
    assert exists(flow.target, f"{flow.source_alias}_{topic}")
    assert not exists(flow.target, f"{flow.source_alias}.{topic}")


def test_internal_topics_follow_or_keep_their_dots(shared: SharedNode) -> None:
    flow = shared.unusual
    assert exists(flow.target, f"mm2-offset-syncs_{flow.source_alias}_internal")
    assert exists(flow.target, f"mm2-offsets.{flow.source_alias}.internal"), "the worker's topics always have dots"
