from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mm2.core.naming.heartbeat_paths import HeartbeatFlow, HeartbeatPlace, expected_heartbeats
from mm2.core.naming.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.topics.replication_filter import ReplicationFilter


def flow(
    text: str,
    *,
    emits: bool = True,
    replicates: bool = True,
    policy: ReplicationPolicy | None = None,
    selects: Callable[[str], bool] = lambda topic: False,
    heartbeats: bool = True,
) -> HeartbeatFlow:
    chosen = ReplicationFilter(
        aliases=Flow.parse(text),
        policy=policy or DefaultReplicationPolicy(),
        selects=selects,
        replicate_heartbeats=heartbeats,
    )
    return HeartbeatFlow(flow=Flow.parse(text), filter=chosen, emits=emits, replicates=replicates)


def places(*flows: HeartbeatFlow) -> list[str]:
    return [f"{one.cluster}: {one.topic} of {one.flow}" for one in sorted(expected_heartbeats(flows))]


def place(cluster: str, topic: str, written_by: str) -> str:
    return f"{cluster}: {topic} of {written_by}"


def test_heartbeats_are_written_to_the_target_and_replicated_by_the_reverse_flow() -> None:
    there, back = flow("A->B"), flow("B->A", replicates=False)
    assert places(there, back) == [
        place("A", "heartbeats", "B->A"),
        place("B", "A.heartbeats", "B->A"),
        place("B", "heartbeats", "A->B"),
    ]


def test_heartbeats_and_remote_topics_have_the_aliases_of_their_flow() -> None:
    """source.cluster.alias and target.cluster.alias; clusters are the file's."""
    there, back = flow("A->B"), flow("B->A", replicates=False)
    eu = replace(there, filter=replace(there.filter, aliases=Flow("eu", "home")))
    assert places(eu, back) == [
        place("A", "heartbeats", "B->A"),
        place("B", "eu.heartbeats", "B->A"),
        place("B", "heartbeats", "eu->home"),
    ]


def test_heartbeats_do_not_cycle_in_active_active() -> None:
    assert places(flow("A->B"), flow("B->A")) == [
        place("A", "B.heartbeats", "A->B"),
        place("A", "heartbeats", "B->A"),
        place("B", "A.heartbeats", "B->A"),
        place("B", "heartbeats", "A->B"),
    ]


def test_heartbeats_of_a_chain_have_two_hops() -> None:
    found = places(flow("A->B", emits=False), flow("B->C", emits=False), flow("C->A", replicates=False))
    assert found == [
        place("A", "heartbeats", "C->A"),
        place("B", "A.heartbeats", "C->A"),
        place("C", "B.A.heartbeats", "C->A"),
    ]


def test_heartbeats_of_a_ring_end_at_their_source() -> None:
    found = places(flow("A->B"), flow("B->C", emits=False), flow("C->A", emits=False))
    assert found == [
        place("A", "C.B.heartbeats", "A->B"),
        place("B", "heartbeats", "A->B"),
        place("C", "B.heartbeats", "A->B"),
    ]


def test_disabled_heartbeats_are_not_expected() -> None:
    writer = flow("X->A", replicates=False)
    assert place("B", "A.heartbeats", "X->A") not in places(writer, flow("A->B", emits=False, heartbeats=False))
    selected = flow("A->B", emits=False, heartbeats=False, selects=lambda topic: topic == "heartbeats")
    assert place("B", "A.heartbeats", "X->A") in places(writer, selected)
    assert places(flow("A->B", emits=False), flow("B->A", emits=False)) == []


def test_each_flow_uses_its_own_policy() -> None:
    writer = flow("X->A", replicates=False)
    underscored = flow("A->B", emits=False, policy=DefaultReplicationPolicy(separator="_"))
    kept = flow("A->C", emits=False, policy=IdentityReplicationPolicy(source_alias="A"))
    onward = flow("B->D", emits=False)  # A_heartbeats is not a heartbeats topic under the separator "."
    assert places(writer, underscored, kept, onward) == [
        place("A", "heartbeats", "X->A"),
        place("B", "A_heartbeats", "X->A"),
        place("C", "A.heartbeats", "X->A"),
    ]


class Nameless(DefaultReplicationPolicy):
    """A user's policy that does not show where a topic came from."""

    def topic_source(self, topic: str) -> str | None:
        return None

    def is_heartbeats_topic(self, topic: str) -> bool:
        return topic.endswith("heartbeats")


def test_names_that_hide_cycles_terminate() -> None:
    flows = [flow("A->B", policy=Nameless()), flow("B->A", policy=Nameless())]
    found = expected_heartbeats(flows)
    assert max(one.topic.count(".") for one in found) == len(flows)
    assert HeartbeatPlace(cluster="A", topic="B.A.heartbeats", flow=Flow("B", "A")) in found
