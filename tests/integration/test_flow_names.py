"""Names of remote and internal topics with another separator or policy."""

from __future__ import annotations

import random

from tests.integration.shared_node import SharedNode, exists
from tests.lab.records import every_shape, plain, write


def test_custom_separator_and_alias(shared: SharedNode) -> None:
    flow = shared.unusual  # replication.policy.separator=_, source.cluster.alias, offset-syncs.topic.location=target
    topic = flow.named("underscored")
    flow.source.create_topic(topic)
    write(flow.source.bootstrap, topic, plain(10))

    flow.wait_state(topic, "RUNNING")
    assert flow.status(topic)["remote_topic"] == f"{flow.alias_in_names}_{topic}"
    assert exists(flow.target, f"{flow.alias_in_names}_{topic}")
    assert not exists(flow.target, f"{flow.source_alias}_{topic}")
    assert not exists(flow.target, f"{flow.source_alias}.{topic}")


def test_separator_in_internal_topic_names(shared: SharedNode) -> None:
    flow = shared.unusual
    assert exists(flow.target, f"mm2-offset-syncs_{flow.alias_in_names}_internal")
    assert exists(flow.target, f"mm2-offsets.{flow.source_alias}.internal"), "the worker's topics always have dots"


def test_identity_policy_keeps_names(shared: SharedNode, rng: random.Random) -> None:
    flow = shared.keeping
    topic = flow.create("kept", 2)
    write(flow.source.bootstrap, topic, every_shape(rng, 100, partitions=2))
    assert flow.wait_copied(topic).records == 100
    assert flow.wait_state(topic, "RUNNING")["remote_topic"] == topic
