"""Selection and discovery of replicated topics."""

from __future__ import annotations

from confluent_kafka.admin import NewPartitions

from tests.integration.shared_node import SEEN, Mirror, SharedNode, exists
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until


def wait_for_discovery(flow: Mirror) -> None:
    """Wait until a topic created now is replicated, so that all earlier topics have been discovered."""
    later = flow.create("later")
    wait_until(lambda: exists(flow.target, flow.remote(later)), SEEN, f"{later} is replicated")


def test_topics_and_topics_exclude(shared: SharedNode) -> None:
    flow = shared.plain
    chosen, hidden = flow.create("chosen"), flow.create("hidden")
    other = flow.source.create_topic(hidden.replace(flow.source_alias, "not"))
    for topic in (chosen, hidden, other):
        write(flow.source.bootstrap, topic, plain(10))
    flow.wait_copied(chosen)
    wait_for_discovery(flow)
    assert not exists(flow.target, flow.remote(hidden))
    assert not exists(flow.target, flow.remote(other))
    assert not flow.status(hidden)


def test_internal_topics_are_not_replicated(shared: SharedNode) -> None:
    """The topic filter selects their names here, but they are not replicated (KIP-1074)."""
    flow = shared.plain
    internal = [
        flow.source.create_topic(f"{flow.source_alias}-mine.checkpoints.internal"),
        flow.source.create_topic(f"__{flow.named('loop-consumer')}"),
    ]
    user = flow.source.create_topic(f"{flow.named('own')}.internal")  # names of user topics can end in .internal
    wait_until(lambda: exists(flow.target, flow.remote(user)), SEEN, f"{user} is replicated")
    wait_for_discovery(flow)
    for topic in internal:
        assert not exists(flow.target, flow.remote(topic))
        assert not flow.status(topic)


def test_both_directions_without_cycles(shared: SharedNode) -> None:
    here, there = shared.plain, shared.back
    topic = here.named("loop")
    for cluster in (here.source, here.target):
        cluster.create_topic(topic)
        write(cluster.bootstrap, topic, plain(50, first=1000 if cluster is here.target else 0))
    here.wait_copied(topic)
    there.wait_copied(topic)
    wait_for_discovery(here)
    wait_for_discovery(there)
    assert not exists(here.target, here.remote(there.remote(topic)))
    assert not exists(here.source, there.remote(here.remote(topic)))
    assert here.wait_copied(topic).records == 50
    assert there.wait_copied(topic).records == 50


def test_a_copy_that_comes_back_is_a_reason_of_the_flow(shared: SharedNode) -> None:
    """Another installation, which calls the target otherwise, has copied it to the source (KAFKA-9914)."""
    flow = shared.plain
    topic = flow.create("circled")
    wait_until(lambda: exists(flow.target, flow.remote(topic)), SEEN, f"{topic} is replicated")
    returned = flow.source.create_topic(f"{flow.source_alias}-other.{flow.remote(topic)}")
    said = f"{returned} is a copy of {flow.remote(topic)}"

    def reasons() -> list[str]:
        return [reason for reason in flow.node.flow(flow.name)["reasons"] if said in reason]

    wait_until(reasons, SEEN, "/flows says what is left out")
    (reason,) = reasons()
    assert f"{flow.name}.mm2.copy.returned.topics = true" in reason
    assert reason in flow.node.process.output()
    assert not exists(flow.target, flow.remote(returned))
    assert not flow.status(returned)
    for future in flow.source.admin.delete_topics([returned]).values():
        future.result(30)
    wait_until(lambda: not reasons(), SEEN, "the reason is gone with the topic")


def test_new_partitions_are_discovered_and_copied(shared: SharedNode) -> None:
    flow = shared.plain
    topic = flow.create("growing", 1)
    write(flow.source.bootstrap, topic, plain(20))
    flow.wait_copied(topic)

    for future in flow.source.admin.create_partitions([NewPartitions(topic, 4)]).values():
        future.result(30)
    # a producer rejects records for partitions that the broker does not know yet
    wait_until(lambda: flow.source.partition_count(topic) == 4, SEEN, f"the broker knows four partitions of {topic}")
    write(flow.source.bootstrap, topic, plain(80, partitions=4, first=20))
    assert flow.wait_copied(topic).records == 100
    assert len(flow.target.admin.list_topics(timeout=10).topics[flow.remote(topic)].partitions) == 4


def test_deleted_topic_does_not_affect_others(shared: SharedNode) -> None:
    flow = shared.plain
    stays, goes = flow.create("stays"), flow.create("goes", 2)
    for topic in (stays, goes):
        write(flow.source.bootstrap, topic, plain(10))
        flow.wait_copied(topic)

    for future in flow.source.admin.delete_topics([goes]).values():
        future.result(30)
    wait_until(lambda: not flow.status(goes), SEEN, f"{goes} is removed from /flows")
    write(flow.source.bootstrap, stays, plain(10, first=10))
    assert flow.wait_copied(stays).records == 20
    assert exists(flow.target, flow.remote(goes)), "the remote topic is kept; users delete it"
    assert flow.wait_state(stays, "RUNNING")["error"] is None

    def deleted() -> dict[str, dict[str, object]]:
        return {one["topic"]: one for one in flow.node.flow(flow.name)["deleted_topics"] or ()}

    wait_until(lambda: goes in deleted(), SEEN, "the leader has noticed it and stored the time")
    assert deleted()[goes]["since"] == deleted()[goes]["noticed"], "it had seen the topic before"
    assert deleted()[goes]["remote_topic"] == flow.remote(goes)
    assert stays not in deleted()
    flow.source.create_topic(goes, 2)
    wait_until(lambda: goes not in deleted(), SEEN, "it was created again")
