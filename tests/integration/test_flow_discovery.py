"""Which topics are replicated, and when that is noticed (mm2-compat §3.2, §3.3)."""

from __future__ import annotations

from confluent_kafka.admin import NewPartitions

from tests.integration.shared_node import SEEN, Mirror, SharedNode, exists
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until


def wait_for_a_round(flow: Mirror) -> None:
    """Until a topic that is made now is replicated: whatever was there before had its turn by then."""
    later = flow.create("later")
    wait_until(lambda: exists(flow.target, flow.remote(later)), SEEN, f"{later} is replicated")


def test_topics_and_topics_exclude_decide(shared: SharedNode) -> None:
    flow = shared.plain
    chosen, hidden = flow.create("chosen"), flow.create("hidden")
    other = flow.source.create_topic(hidden.replace(flow.source_alias, "not"))
    for topic in (chosen, hidden, other):
        write(flow.source.bootstrap, topic, plain(10))
    flow.wait_copied(chosen)
    wait_for_a_round(flow)
    assert not exists(flow.target, flow.remote(hidden))
    assert not exists(flow.target, flow.remote(other))
    assert not flow.status(hidden)


def test_internal_topics_stay_at_home(shared: SharedNode) -> None:
    """Their names are the filter's to choose here, but not to be replicated (KIP-1074)."""
    flow = shared.plain
    internal = [
        flow.source.create_topic(f"{flow.source_alias}-mine.checkpoints.internal"),
        flow.source.create_topic(f"__{flow.named('loop-consumer')}"),
    ]
    user = flow.source.create_topic(f"{flow.named('own')}.internal")  # a user's topic may end like this
    wait_until(lambda: exists(flow.target, flow.remote(user)), SEEN, f"{user} is replicated")
    wait_for_a_round(flow)
    for topic in internal:
        assert not exists(flow.target, flow.remote(topic))
        assert not flow.status(topic)


def test_both_directions_without_an_echo(shared: SharedNode) -> None:
    here, there = shared.plain, shared.back
    topic = here.named("loop")
    for cluster in (here.source, here.target):
        cluster.create_topic(topic)
        write(cluster.bootstrap, topic, plain(50, first=1000 if cluster is here.target else 0))
    here.wait_copied(topic)
    there.wait_copied(topic)
    wait_for_a_round(here)
    wait_for_a_round(there)
    assert not exists(here.target, here.remote(there.remote(topic)))
    assert not exists(here.source, there.remote(here.remote(topic)))
    assert here.wait_copied(topic).records == 50
    assert there.wait_copied(topic).records == 50


def test_new_partitions_are_found_and_copied(shared: SharedNode) -> None:
    flow = shared.plain
    topic = flow.create("growing", 1)
    write(flow.source.bootstrap, topic, plain(20))
    flow.wait_copied(topic)

    for future in flow.source.admin.create_partitions([NewPartitions(topic, 4)]).values():
        future.result(30)
    write(flow.source.bootstrap, topic, plain(80, partitions=4, first=20))
    assert flow.wait_copied(topic).records == 100
    assert len(flow.target.admin.list_topics(timeout=10).topics[flow.remote(topic)].partitions) == 4


def test_a_deleted_topic_leaves_the_rest_running(shared: SharedNode) -> None:
    flow = shared.plain
    stays, goes = flow.create("stays"), flow.create("goes", 2)
    for topic in (stays, goes):
        write(flow.source.bootstrap, topic, plain(10))
        flow.wait_copied(topic)

    for future in flow.source.admin.delete_topics([goes]).values():
        future.result(30)
    wait_until(lambda: not flow.status(goes), SEEN, f"{goes} is gone from /flows")
    write(flow.source.bootstrap, stays, plain(10, first=10))
    assert flow.wait_copied(stays).records == 20
    assert exists(flow.target, flow.remote(goes)), "the remote topic is the user's to delete"
    assert flow.wait_state(stays, "RUNNING")["error"] is None
