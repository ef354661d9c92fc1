from __future__ import annotations

from collections.abc import Callable

from mm2.core.heartbeat_paths import HeartbeatFlow, HeartbeatPlace, expected_heartbeats
from mm2.core.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.replication_filter import ReplicationFilter


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
        flow=Flow.parse(text),
        policy=policy or DefaultReplicationPolicy(),
        selects=selects,
        replicate_heartbeats=heartbeats,
    )
    return HeartbeatFlow(filter=chosen, emits=emits, replicates=replicates)


def places(*flows: HeartbeatFlow) -> list[str]:
    return [f"{one.cluster}: {one.topic} of {one.flow}" for one in sorted(expected_heartbeats(flows))]


def place(cluster: str, topic: str, written_by: str) -> str:
    return f"{cluster}: {topic} of {written_by}"


def test_a_flow_writes_into_its_target_and_the_way_back_carries_the_other_ones() -> None:
    there, back = flow("A->B"), flow("B->A", replicates=False)
    assert places(there, back) == [
        place("A", "heartbeats", "B->A"),
        place("B", "A.heartbeats", "B->A"),
        place("B", "heartbeats", "A->B"),
    ]


def test_both_ways_nothing_goes_round() -> None:
    assert places(flow("A->B"), flow("B->A")) == [
        place("A", "B.heartbeats", "A->B"),
        place("A", "heartbeats", "B->A"),
        place("B", "A.heartbeats", "B->A"),
        place("B", "heartbeats", "A->B"),
    ]


def test_a_chain_carries_them_over_two_hops() -> None:
    found = places(flow("A->B", emits=False), flow("B->C", emits=False), flow("C->A", replicates=False))
    assert found == [
        place("A", "heartbeats", "C->A"),
        place("B", "A.heartbeats", "C->A"),
        place("C", "B.A.heartbeats", "C->A"),
    ]


def test_a_ring_ends_where_it_began() -> None:
    found = places(flow("A->B"), flow("B->C", emits=False), flow("C->A", emits=False))
    assert found == [
        place("A", "C.B.heartbeats", "A->B"),
        place("B", "heartbeats", "A->B"),
        place("C", "B.heartbeats", "A->B"),
    ]


def test_what_is_switched_off_is_not_expected() -> None:
    writer = flow("X->A", replicates=False)
    assert place("B", "A.heartbeats", "X->A") not in places(writer, flow("A->B", emits=False, heartbeats=False))
    selected = flow("A->B", emits=False, heartbeats=False, selects=lambda topic: topic == "heartbeats")
    assert place("B", "A.heartbeats", "X->A") in places(writer, selected)
    assert places(flow("A->B", emits=False), flow("B->A", emits=False)) == []


def test_each_flow_names_by_its_own_policy() -> None:
    writer = flow("X->A", replicates=False)
    underscored = flow("A->B", emits=False, policy=DefaultReplicationPolicy(separator="_"))
    kept = flow("A->C", emits=False, policy=IdentityReplicationPolicy(source_alias="A"))
    onward = flow("B->D", emits=False)  # A_heartbeats is no heartbeats topic under the separator "."
    assert places(writer, underscored, kept, onward) == [
        place("A", "heartbeats", "X->A"),
        place("B", "A_heartbeats", "X->A"),
        place("C", "A.heartbeats", "X->A"),
    ]


class Nameless(DefaultReplicationPolicy):
    """A policy of a user's own that does not show where a topic came from."""

    def topic_source(self, topic: str) -> str | None:
        return None

    def is_heartbeats_topic(self, topic: str) -> bool:
        return topic.endswith("heartbeats")


def test_names_that_show_no_cycle_come_to_an_end() -> None:
    flows = [flow("A->B", policy=Nameless()), flow("B->A", policy=Nameless())]
    found = expected_heartbeats(flows)
    assert max(one.topic.count(".") for one in found) == len(flows)
    assert HeartbeatPlace(cluster="A", topic="B.A.heartbeats", flow=Flow("B", "A")) in found
