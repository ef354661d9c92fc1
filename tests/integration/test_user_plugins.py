"""Custom classes in a real node: those of docs/how-to/extending.md, and two with errors.

Also a flow without offset syncs, and one whose internal topic names keep their dots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from tests.integration.shared_node import COPIED, SEEN, Mirror, exists
from tests.lab import groups, scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.docs import write_blocks
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.topic_configs import configs
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

MISBEHAVING = """
from pathlib import Path

from acme_filters import Catalogue
from acme_naming import SuffixPolicy


class Moody(Catalogue):
    def configure(self, properties):
        super().configure(properties)
        self.mood = Path(properties["acme.mood.file"])

    def should_replicate_topic(self, topic):
        chosen = super().should_replicate_topic(topic)
        if chosen and topic.startswith("moody") and self.mood.exists():
            raise RuntimeError(f"no {topic}\\ntoday")
        return chosen


class Careless(SuffixPolicy):
    def format_remote_topic(self, alias, topic):
        if topic.startswith("twin"):
            return f"twins-from-{alias}"
        return super().format_remote_topic(alias, topic + "!" * topic.startswith("shouted"))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The node and its flows.

    ``own`` uses the custom classes; ``silent`` has emit.offset-syncs.enabled=false; ``dotted`` uses the separator _ for
    remote topics only. ``catalogue`` lists the topic prefixes that the filter selects. While file ``mood`` exists, the
    filter raises for topics that start with moody.
    """

    node: Node
    own: Mirror
    silent: Mirror
    dotted: Mirror
    catalogue: dict[str, str]
    mood: Path

    def remote(self, topic: str) -> str:
        return f"{topic}-from-{self.own.source_alias}"

    def group(self, group: str) -> dict[str, Any]:
        """Return the group as in REST responses, or nothing if it is not listed."""
        answer = self.node.get(f"/flows/{self.own.source_alias}/{self.own.target_alias}/groups")
        shown = answer.json()["groups"] if answer is not None and answer.is_success else []
        return next((one for one in shown if one["group"] == group), {})


@pytest.fixture(scope="module")
def stage(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Stage]:
    directory = scratch.directory("own-classes")
    write_blocks(ROOT / "docs/how-to/extending.md", directory)
    (directory / "acme_misbehaving.py").write_text(MISBEHAVING)
    catalogue = {name: unique_name(name) for name in ("orders", "moody", "shouted", "twin", "twin-too")}
    (directory / "topics.txt").write_text("\n".join(catalogue.values()))
    mood = directory / "mood"
    mood.touch()
    a, b, c, d = (unique_name(stem) for stem in ("A", "B", "C", "D"))
    without_syncs = {name: value for name, value in ONE_COPY.items() if not name.startswith("offset-syncs")}
    properties = {
        "clusters": f"{a}, {b}, {c}, {d}",
        f"{a}.bootstrap.servers": cluster_a.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        f"{c}.bootstrap.servers": cluster_a.bootstrap,
        f"{d}.bootstrap.servers": cluster_a.bootstrap,
        **without_syncs,
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        f"{a}->{b}.enabled": "true",
        f"{a}->{b}.offset-syncs.topic.replication.factor": "1",
        f"{a}->{b}.replication.policy.class": "acme_misbehaving:Careless",
        f"{a}->{b}.topic.filter.class": "acme_misbehaving:Moody",
        f"{a}->{b}.group.filter.class": "acme_filters:Services",
        f"{a}->{b}.config.property.filter.class": "acme_filters:RetentionOnly",
        f"{a}->{b}.forwarding.admin.class": "acme_admin:OurAdmin",
        f"{a}->{b}.acme.topics.file": str(directory / "topics.txt"),
        f"{a}->{b}.acme.mood.file": str(mood),
        f"{a}->{b}.acme.min.insync.replicas": "1",
        f"{c}->{b}.enabled": "true",
        f"{c}->{b}.topics": f"{c}-.*",
        f"{c}->{b}.emit.offset-syncs.enabled": "false",
        f"{d}->{b}.enabled": "true",
        f"{d}->{b}.topics": f"{d}-.*",
        f"{d}->{b}.offset-syncs.topic.location": "target",
        f"{d}->{b}.offset-syncs.topic.replication.factor": "1",
        f"{d}->{b}.replication.policy.separator": "_",
        f"{d}->{b}.replication.policy.internal.topic.separator.enabled": "false",
    }
    path = os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH"))))
    with Node(properties, name="own-classes", env={"PYTHONPATH": path}) as node:
        node.wait_running()
        yield Stage(
            node=node,
            own=Mirror(node=node, source=cluster_a, target=cluster_b, source_alias=a, target_alias=b),
            silent=Mirror(node=node, source=cluster_a, target=cluster_b, source_alias=c, target_alias=b),
            dotted=Mirror(node=node, source=cluster_a, target=cluster_b, source_alias=d, target_alias=b, separator="_"),
            catalogue=catalogue,
            mood=mood,
        )


def test_policy_filters_and_admin_make_the_remote_topic(stage: Stage) -> None:
    source, target = stage.own.source, stage.own.target
    topic = source.create_topic(
        stage.catalogue["orders"], 2, config={"retention.ms": "7200000", "max.message.bytes": "2000000"}
    )
    other = source.create_topic(unique_name("not-in-the-list"))
    write(source.bootstrap, topic, plain(100, partitions=2))

    remote = stage.remote(topic)
    assert stage.own.wait_state(topic, "RUNNING")["remote_topic"] == remote
    assert wait_until_copied((source.bootstrap, topic), (target.bootstrap, remote), COPIED).records == 100
    made = configs(target, remote)
    assert made["retention.ms"] == ("7200000", True)
    assert not made["max.message.bytes"][1], "the config filter excludes it"
    assert made["min.insync.replicas"] == ("1", True), "the admin sets it"
    assert not stage.own.status(other)


def test_groups_are_selected_by_the_group_filter(stage: Stage) -> None:
    source = stage.own.source
    topic = source.create_topic(unique_name("grouped"))
    service, person = unique_name("svc-mail"), unique_name("person")
    for group in (service, person):
        groups.commit(source, group, {(topic, 0): 0})
    wait_until(lambda: stage.group(person) and stage.group(service), SEEN, "both groups are shown")
    assert (stage.group(person)["state"], stage.group(person)["reason"]) == (
        "FILTERED",
        "excluded by group.filter.class acme_filters:Services",
    )
    assert stage.group(service)["reason"] != stage.group(person)["reason"]


def test_filter_that_raises_fails_only_its_topic(stage: Stage) -> None:
    source = stage.own.source
    topic = source.create_topic(stage.catalogue["moody"])
    write(source.bootstrap, topic, plain(10))
    error = stage.own.wait_state(topic, "FAILED")["error"]
    assert error == (
        "topic.filter.class acme_misbehaving:Moody: "
        f"should_replicate_topic('{topic}') raised RuntimeError: no {topic} today (acme_misbehaving.py:16)"
    )
    assert any(error in reason for reason in stage.node.health()["reasons"])
    assert stage.node.process.running

    stage.mood.unlink()
    stage.own.wait_state(topic, "RUNNING")
    remote = stage.remote(topic)
    assert wait_until_copied((source.bootstrap, topic), (stage.own.target.bootstrap, remote), COPIED).records == 10


def test_invalid_remote_topic_names_are_reported(stage: Stage) -> None:
    source = stage.own.source
    shouted, *twins = (stage.catalogue[name] for name in ("shouted", "twin", "twin-too"))
    # A single twin would be valid.
    made = source.admin.create_topics([NewTopic(name, 1, 1) for name in (shouted, *twins)])
    assert [future.result(SEEN) for future in made.values()] == [None, None, None]
    error = stage.own.wait_state(shouted, "FAILED")["error"]
    assert error.startswith("replication.policy.class acme_misbehaving:Careless: format_remote_topic(")
    assert "not a valid topic name" in error
    for twin in twins:
        assert "all map to remote topic twins-from-" in stage.own.wait_state(twin, "FAILED")["error"]
    assert not exists(stage.own.target, f"twins-from-{stage.own.source_alias}")


def test_flow_without_offset_syncs(stage: Stage) -> None:
    """emit.offset-syncs.enabled=false (KIP-1031): records are copied without offset syncs and checkpoints."""
    flow = stage.silent
    topic = flow.create("unsynced")
    write(flow.source.bootstrap, topic, plain(50))
    assert flow.wait_copied(topic).records == 50
    assert not exists(flow.target, f"mm2-offset-syncs.{flow.source_alias}.internal")
    assert not exists(flow.target, f"{flow.source_alias}.checkpoints.internal")
    syncs = f"mm2-offset-syncs.{flow.target_alias}.internal"  # shared with the other flows
    read = read_topic(flow.source.bootstrap, syncs) if exists(flow.source, syncs) else {}
    assert not any(topic.encode() in (record.content[0] or b"") for record in read.get(0, []))
    shown = stage.node.flow(flow.name)
    assert "checkpoint" not in {task["kind"] for task in shown["tasks"]}


def test_internal_topics_can_keep_their_dots(stage: Stage) -> None:
    """replication.policy.internal.topic.separator.enabled=false (KIP-949): the separator is for remote topics only."""
    flow = stage.dotted
    topic = flow.create("dotted")
    write(flow.source.bootstrap, topic, plain(10))
    assert flow.wait_copied(topic).records == 10
    alias = flow.source_alias
    for dots in (f"mm2-offset-syncs.{alias}.internal", f"{alias}.checkpoints.internal"):
        wait_until(partial(exists, flow.target, dots), SEEN, f"{dots} exists")
        assert not exists(flow.target, dots.replace(".", "_"))
