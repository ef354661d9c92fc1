"""The example files of deploy/examples: each runs unchanged as docs/how-to/topologies.md describes.

They use separate clusters: the shared ones contain heartbeats of many other flows, which would be replicated too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import javaproperties
import pytest

from mm2.client import MirrorClient
from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.groups import Offsets, commit, committed
from tests.lab.history import count, read_topic
from tests.lab.node import Node
from tests.lab.records import every_shape, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

EXAMPLES = ROOT / "deploy" / "examples"
RECORDS = 200  # per round of writing

# Changes for the lab: replication factor 1, since clusters have a single broker, and short intervals.
IN_THE_LAB = {
    **ONE_COPY,
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
}

Two = tuple[KafkaCluster, KafkaCluster]
Three = tuple[KafkaCluster, KafkaCluster, KafkaCluster]


@pytest.fixture(scope="module")
def pair() -> Iterator[Two]:
    with KafkaCluster("first") as first, KafkaCluster("second") as second:
        yield first, second


@pytest.fixture(scope="module")
def clusters(pair: Two) -> Iterator[Three]:
    with KafkaCluster("third") as third:
        yield *pair, third


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """An example file in the lab: clusters by alias, and a node that runs the file."""

    clusters: Mapping[str, KafkaCluster]
    node: Node
    rng: random.Random

    def write(self, *places: tuple[str, str]) -> None:
        """Write a round of records of all shapes to topics, given as pairs of alias and name."""
        for alias, topic in places:
            write(self.clusters[alias].bootstrap, topic, every_shape(self.rng, RECORDS, partitions=2), codec="lz4")

    def wait_copied(self, source: tuple[str, str], *remotes: tuple[str, str]) -> None:
        """Wait until each remote topic equals the source topic."""
        for alias, topic in remotes:
            verdict = wait_until_copied(
                (self.clusters[source[0]].bootstrap, source[1]), (self.clusters[alias].bootstrap, topic), COPIED
            )
            assert verdict.exact

    def written(self, alias: str, topic: str) -> int:
        return count(read_topic(self.clusters[alias].bootstrap, topic))

    def topics(self, alias: str) -> set[str]:
        """Return the topics of a cluster, except internal ones of MirrorMaker and Kafka."""
        return {topic for topic in self.clusters[alias].admin.list_topics(timeout=10).topics if not internal(topic)}

    def hops(self, alias: str) -> dict[str, int | None]:
        """Return the replication hops from every other cluster, using the client library."""
        with MirrorClient({"bootstrap.servers": self.clusters[alias].bootstrap}) as client:
            return {other: client.replication_hops(other) for other in self.clusters if other != alias}

    def commit(self, alias: str, group: str, offsets: Offsets) -> None:
        commit(self.clusters[alias], group, offsets)

    def wait_group(self, alias: str, group: str, offsets: Offsets) -> None:
        """Wait until the group has exactly these offsets on the cluster."""
        cluster = self.clusters[alias]
        wait_until(lambda: committed(cluster, group) == offsets, SEEN, f"group {group} of {alias} is at {offsets}")

    def wait_topics(self, expected: Mapping[str, set[str]]) -> None:
        """Wait until every cluster has exactly these topics."""
        for alias, topics in expected.items():
            wait_until(lambda alias=alias, topics=topics: self.topics(alias) >= topics, SEEN, f"{alias} has {topics}")  # type: ignore[misc]
        assert {alias: self.topics(alias) for alias in expected} == expected


def internal(topic: str) -> bool:
    return topic.startswith(("__", "mm2")) or topic.endswith(".checkpoints.internal")


def properties_of(file: str, clusters: Mapping[str, KafkaCluster]) -> dict[str, str]:
    """Return the properties of the file with lab addresses and the changes of IN_THE_LAB."""
    properties = javaproperties.loads((EXAMPLES / file).read_text("ascii"))
    assert properties["clusters"] == ", ".join(clusters)
    for key in [key for key in properties if key.startswith("listeners")]:
        del properties[key]  # the test's node has its own port, and no other node calls it
    addresses = {f"{alias}.bootstrap.servers": cluster.bootstrap for alias, cluster in clusters.items()}
    lab = dict(IN_THE_LAB)
    if properties.get("emit.offset-syncs.enabled") == "false":
        del lab["offset-syncs.topic.replication.factor"]  # must not be set in addition
    return {**properties, **lab, **addresses}


@contextmanager
def running(
    file: str, clusters: Mapping[str, KafkaCluster], topics: Mapping[str, tuple[str, ...]], rng: random.Random
) -> Iterator[Topology]:
    """Run the file on clusters that contain only ``topics``, by alias, each with a round of records."""
    for cluster in clusters.values():
        empty(cluster)
    places = [(alias, topic) for alias, names in topics.items() for topic in names]
    for alias, topic in places:
        clusters[alias].create_topic(topic, 2)
    with ExitStack() as ends:
        node = Node(properties_of(file, clusters), name=file.removesuffix(".properties"))
        topology = Topology(clusters=clusters, node=node, rng=rng)
        topology.write(*places)
        ends.enter_context(node).wait_running()
        yield topology


def empty(cluster: KafkaCluster) -> None:
    """Delete the topics of the previous topology."""

    def left() -> list[str]:
        return [topic for topic in cluster.admin.list_topics(timeout=10).topics if not topic.startswith("__")]

    if topics := left():
        for future in cluster.admin.delete_topics(topics).values():
            future.result(SEEN)
        wait_until(lambda: not left(), SEEN, f"the topics of {cluster.name} are deleted")


# both directions without cycles: test_flow_discovery.py; a group that moves there and back: test_flow_groups.py
@pytest.mark.long
def test_active_active(pair: Two, rng: random.Random) -> None:
    sites = dict(zip(("west", "east"), pair, strict=True))
    both = ("orders", "payments")
    with running("active-active.properties", sites, {"west": (*both, "local"), "east": both}, rng) as topology:
        topology.write(("west", "orders"), ("east", "orders"))
        for topic in both:
            topology.wait_copied(("west", topic), ("east", f"west.{topic}"))
            topology.wait_copied(("east", topic), ("west", f"east.{topic}"))
        copies = {"west": {f"east.{topic}" for topic in (*both, "heartbeats")}}
        copies["east"] = {f"west.{topic}" for topic in (*both, "heartbeats")}
        topology.wait_topics(
            {
                "west": {*both, "local", "heartbeats", *copies["west"]},
                "east": {*both, "heartbeats", *copies["east"]},
            }
        )
        assert (topology.hops("west"), topology.hops("east")) == ({"east": 1}, {"west": 1})

        topology.commit("west", "billing", {("orders", 0): 30, ("east.orders", 0): 9})
        topology.commit("east", "shipping", {("orders", 1): 40})
        topology.wait_group("east", "billing", {("west.orders", 0): 30})
        topology.wait_group("west", "shipping", {("east.orders", 1): 40})
    assert [topology.written(site, "orders") for site in sites] == [2 * RECORDS] * 2, "no record is replicated back"


@pytest.mark.long  # two flows as in test_aggregation, in the opposite direction
def test_fan_out(clusters: Three, rng: random.Random) -> None:
    places = dict(zip(("central", "berlin", "lima"), clusters, strict=True))
    with running(
        "fan-out.properties", places, {"central": ("prices", "rates"), "berlin": ("prices",)}, rng
    ) as topology:
        topology.write(("central", "prices"))
        topology.wait_copied(("central", "prices"), ("berlin", "central.prices"), ("lima", "central.prices"))
        topology.wait_copied(("central", "rates"), ("berlin", "central.rates"))
        topology.wait_topics(
            {
                "central": {"prices", "rates", "heartbeats"},
                "berlin": {"prices", "central.prices", "central.rates", "central.heartbeats"},
                "lima": {"central.prices", "central.heartbeats"},
            }
        )
        assert topology.hops("lima") == {"central": 1, "berlin": None}


@pytest.mark.long  # two flows in one node, as on the shared node; flags of heartbeats: test_flow_heartbeats.py
def test_aggregation(clusters: Three, rng: random.Random) -> None:
    places = dict(zip(("plant1", "plant2", "hub"), clusters, strict=True))
    topics = {"plant1": ("sensors", "alarms"), "plant2": ("sensors", "private"), "hub": ("sensors",)}
    with running("aggregation.properties", places, topics, rng) as topology:
        topology.write(("plant1", "sensors"), ("plant2", "sensors"))
        topology.wait_copied(("plant1", "sensors"), ("hub", "plant1.sensors"))
        topology.wait_copied(("plant2", "sensors"), ("hub", "plant2.sensors"))
        topology.wait_copied(("plant1", "alarms"), ("hub", "plant1.alarms"))
        beats = {"plant1.heartbeats", "plant2.heartbeats"}
        topology.wait_topics(
            {
                "plant1": {"sensors", "alarms", "heartbeats"},
                "plant2": {"sensors", "private", "heartbeats"},
                "hub": {"sensors", "plant1.sensors", "plant2.sensors", "plant1.alarms", *beats},
            }
        )
        assert topology.written("hub", "sensors") == RECORDS, "nothing is copied into the hub's own topic"
        assert topology.hops("hub") == {"plant1": 1, "plant2": 1}
        everything = {name for cluster in clusters for name in cluster.admin.list_topics(timeout=10).topics}
        assert [name for name in everything if "offset-syncs" in name or "checkpoints" in name] == [], (
            "the file disables offset syncs and checkpoints"
        )


@pytest.mark.long  # each hop is a flow as in test_active_active; hops: tests/integration/client
def test_chain(clusters: Three, rng: random.Random) -> None:
    places = dict(zip(("edge", "region", "core"), clusters, strict=True))
    topics = {"edge": ("orders", "local"), "region": ("invoices", "orders")}
    with running("chain.properties", places, topics, rng) as topology:
        topology.write(("edge", "orders"), ("region", "invoices"))
        topology.wait_copied(("edge", "orders"), ("region", "edge.orders"), ("core", "region.edge.orders"))
        topology.wait_copied(("region", "invoices"), ("core", "region.invoices"))
        topology.wait_topics(
            {
                "edge": {"orders", "local", "heartbeats"},
                "region": {"invoices", "orders", "edge.orders", "edge.heartbeats"},
                "core": {"region.invoices", "region.edge.orders", "region.edge.heartbeats"},
            }
        )
        core = places["core"].bootstrap
        beats = wait_until(lambda: read_topic(core, "region.edge.heartbeats")[0], COPIED, "a heartbeat arrives")
        assert {beat.content[0] for beat in beats} == {b"\x00\x06region\x00\x04edge"}, (
            "heartbeats are unchanged since the edge"
        )
        assert topology.hops("core") == {"edge": 2, "region": 1}

        topology.commit("edge", "billing", {("orders", 0): 30})
        topology.wait_group("region", "billing", {("edge.orders", 0): 30})
        topology.wait_group("core", "billing", {("region.edge.orders", 0): 30})


@pytest.mark.long  # test_active_active and test_chain cover its parts
def test_three_sites(clusters: Three, rng: random.Random) -> None:
    """Each site has a node that runs the flows into it; one of the nodes is down for a while."""
    sites = dict(zip(("ams", "fra", "sin"), clusters, strict=True))
    for cluster in clusters:
        empty(cluster)
        cluster.create_topic("orders", 2)
    with ExitStack() as ends:
        properties = properties_of("three-sites.properties", sites)
        nodes = {site: Node(properties, name=site, arguments=("--clusters", site)) for site in sites}
        topology = Topology(clusters=sites, node=nodes["ams"], rng=rng)
        topology.write(*((site, "orders") for site in sites))
        for node in nodes.values():
            ends.enter_context(node)
        for site, node in nodes.items():
            node.wait_running()
            assert {one["flow"] for one in node.flows()} == {f"{other}->{site}" for other in sites if other != site}

        nodes["fra"].stop()
        topology.write(*((site, "orders") for site in sites))
        topology.wait_copied(("ams", "orders"), ("sin", "ams.orders"))
        topology.wait_copied(("sin", "orders"), ("ams", "sin.orders"))
        topology.wait_copied(("fra", "orders"), ("ams", "fra.orders"), ("sin", "fra.orders"))
        assert topology.written("fra", "ams.orders") == RECORDS, "no other node copies into a site whose node is down"

        nodes["fra"].start().wait_running()
        topology.wait_copied(("ams", "orders"), ("fra", "ams.orders"))
        topology.wait_copied(("sin", "orders"), ("fra", "sin.orders"))
    assert [topology.written(site, "orders") for site in sites] == [2 * RECORDS] * 3, "no record is replicated back"


@pytest.mark.long  # names: test_flow_names.py; groups with the identity policy: test_flow_groups.py
def test_migration(pair: Two, rng: random.Random) -> None:
    places = dict(zip(("old", "new"), pair, strict=True))
    topics = ("orders", "payments", "west.orders")
    with running("migration.properties", places, {"old": topics}, rng) as topology:
        topology.write(("old", "orders"))
        for topic in topics:
            topology.wait_copied(("old", topic), ("new", topic))
        topology.wait_topics({"old": set(topics), "new": {*topics, "heartbeats"}})

        topology.commit("old", "billing", {("orders", 0): 30, ("orders", 1): 0, ("west.orders", 1): 40})
        topology.wait_group("new", "billing", {("orders", 0): 30, ("orders", 1): 0, ("west.orders", 1): 40})
