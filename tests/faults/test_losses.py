"""What the source loses under load is copied or on record as lost, offset by offset; nothing is neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewTopic

from tests.faults.mode import OURS, Mode
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.load import Load
from tests.lab.losses import Account, Ledger, account, recorded_losses
from tests.lab.node import Node
from tests.lab.quotas import set_quota
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import compare, wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

CAUGHT_UP = 120.0
COPIED = 60.0
ELECTED = 60.0
BEHIND = 60.0
MEGABYTE = 1_000_000
KEPT_BYTES = 2 * MEGABYTE  # of each partition, in segments of half of that
SLOW = MEGABYTE // 2  # bytes per second that the target takes

# The comments name the smaller tests of make test.
pytestmark = [pytest.mark.long, pytest.mark.parametrize("mode", OURS, ids=str)]


# tests/integration/flows/test_losses.py: test_retention_overtakes_a_running_partition
@pytest.mark.fault_row("retention")
def test_retention_overtakes_the_flow(
    cluster_b: KafkaCluster, mode: Mode, record_row: Callable[[Account], None]
) -> None:
    """The source deletes segments by size faster than the target takes records, from some time after the start on."""
    checks = {"log.retention.check.interval.ms": "200", "log.segment.delete.delay.ms": "0"}
    with KafkaCluster("short-lived", properties=checks) as source:
        sizes = {"retention.bytes": str(KEPT_BYTES), "segment.bytes": str(2**20)}
        topic = source.create_topic(unique_name("overtaken"), 2, config=sizes)
        ledger = Ledger()
        file = one_flow(source, cluster_b, aliases=("RA", "RB"), topics=topic) | {"mm2.lanes": "1"}
        file |= mode.properties("RA", "RB")
        with Node(file) as node:
            node.wait_running()
            write(source.bootstrap, topic, plain(10, partitions=2))
            wait_until_copied((source.bootstrap, topic), (cluster_b.bootstrap, f"RA.{topic}"), COPIED)
            with (
                set_quota(cluster_b, "producer_byte_rate", SLOW),
                Load(
                    source, topic, partitions=2, per_second=4_000, value_bytes=1_000, codec="none", ledger=ledger
                ) as load,
            ):
                wait_until(lambda: recorded_losses(cluster_b.bootstrap, "RA", topic), BEHIND, "a loss is on record")
                load.wait_for_more(20_000)
                load.stop()
            wait_caught_up(node, "RA->RB", topic)
            assert node.healthy
            found = wait_settled(ledger, cluster_b, "RA", topic, mode)
            record_row(found)
            assert found.recorded
            assert found.copied + found.recorded == load.acknowledged, "a record is copied or lost, not both"
            assert node.metric("mm2_source_losses_total", topic=f"RA.{topic}") > 0
            kinds = {loss.kind for loss in recorded_losses(cluster_b.bootstrap, "RA", topic)}
            assert kinds == {"retention"}


# tests/integration/flows/test_losses.py: test_recreation_before_all_was_copied
@pytest.mark.fault_row("topic recreated")
def test_topic_is_deleted_and_recreated_under_load(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, mode: Mode, record_row: Callable[[Account], None]
) -> None:
    """The flow is behind when the topic is deleted. The new topic is copied from its beginning."""
    topic = cluster_a.create_topic(unique_name("recreated-under-load"), 2)
    other = cluster_a.create_topic(unique_name("beside-recreated"), 2)
    first, second = Ledger(), Ledger()
    file = one_flow(cluster_a, cluster_b, aliases=("DA", "DB"), topics=f"{topic}, {other}") | {"mm2.lanes": "1"}
    file |= mode.properties("DA", "DB")
    with Node(file) as node, Load(cluster_a, other, partitions=2, per_second=200) as steady:
        node.wait_running()
        with set_quota(cluster_b, "producer_byte_rate", SLOW):
            with Load(
                cluster_a, topic, partitions=2, per_second=4_000, value_bytes=1_000, ledger=first, codec="none"
            ) as load:
                load.wait_for_more(40_000)
            written = load.acknowledged
            wait_until(lambda: known_end(node, "DA->DB", topic) == written, BEHIND, "/flows shows the whole lag")
            cluster_a.delete_topic(topic)
            cluster_a.create_topic(topic, 2)
            later = Load(cluster_a, topic, partitions=2, per_second=500, ledger=second, first=10**6)
            with later:
                later.wait_for_more(1_000)
        with Load(cluster_a, topic, partitions=2, per_second=500, ledger=second, first=2 * 10**6) as load:
            load.wait_for_more(1_000)
        wait_caught_up(node, "DA->DB", topic)
        assert account(second.written, read_topic(cluster_b.bootstrap, f"DA.{topic}"), []).settled
        found = wait_settled(first, cluster_b, "DA", topic, mode)
        record_row(found)
        assert found.recorded, "the flow was not behind"
        steady.stop()
        wait_until_copied((cluster_a.bootstrap, other), (cluster_b.bootstrap, f"DA.{other}"), COPIED)


# tests/integration/flows/test_truncation.py: test_log_truncated_and_regrown_between_two_fetches
@pytest.mark.fault_row("unclean source election")
def test_unclean_election(cluster_b: KafkaCluster, mode: Mode, record_row: Callable[[Account], None]) -> None:
    """A broker that missed records becomes leader. The log is shorter, then grows again with other records."""
    with KafkaCluster("unclean", brokers=3) as source:
        topic = unique_name("elected")
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        wanted = NewTopic(topic, 2, replica_assignment=[[1, 2], [1, 2]], config=config)
        source.admin.create_topics([wanted])[topic].result(ADMIN_TIMEOUT)
        ledger = Ledger()
        remote = cluster_b.bootstrap, f"UA.{topic}"
        file = one_flow(source, cluster_b, aliases=("UA", "UB"), topics=topic) | mode.properties("UA", "UB")
        with Node(file) as node:
            node.wait_running()
            with Load(source, topic, partitions=2, per_second=1_000, ledger=ledger) as load:
                load.wait_for_more(5_000)
                source.broker(2).kill()
                load.wait_for_more(10_000)
            wait_until_copied((source.bootstrap, topic), remote, COPIED)
            source.broker(1).kill()
            source.broker(2).restart()
            wait_until(lambda: source.leader(topic) is source.broker(2), ELECTED, "the other replica is elected")
            with Load(source, topic, partitions=2, per_second=1_000, ledger=ledger, first=10**6) as load:
                load.wait_for_more(20_000)
            source.broker(1).restart()
            with Load(source, topic, partitions=2, per_second=1_000, ledger=ledger, first=2 * 10**6) as load:
                load.wait_for_more(2_000)
            wait_caught_up(node, "UA->UB", topic)
            there = read_topic(source.bootstrap, topic)
            found = account(
                ledger.written,
                read_topic(*remote),
                recorded_losses(cluster_b.bootstrap, "UA", topic),
                still_there=there,
            )
            record_row(found)
            assert found.settled, found
            assert {loss.kind for loss in recorded_losses(cluster_b.bootstrap, "UA", topic)} == {"truncated"}
            for partition, records in there.items():
                copies = {one.content for one in read_topic(*remote)[partition]}
                assert all(one.content in copies for one in records), "all that the source has now is copied"


def wait_caught_up(node: Node, flow: str, topic: str) -> None:
    def caught_up() -> bool:
        partitions = node.topic(flow, topic).get("partitions", [])
        return bool(partitions) and all(one["state"] == "RUNNING" and one["lag_records"] == 0 for one in partitions)

    wait_until(caught_up, CAUGHT_UP, f"{topic} is caught up")


def known_end(node: Node, flow: str, topic: str) -> int:
    return sum(one["end_offset"] or 0 for one in node.topic(flow, topic).get("partitions", []))


def wait_settled(ledger: Ledger, target: KafkaCluster, alias: str, topic: str, mode: Mode) -> Account:
    """Return what became of every record. Raises GaveUp with those that are neither copied nor on record."""

    found: list[Account] = []

    def settled() -> bool:
        remote = read_topic(target.bootstrap, f"{alias}.{topic}")
        found.append(account(ledger.written, remote, recorded_losses(target.bootstrap, alias, topic)))
        return found[-1].settled

    try:
        wait_until(settled, COPIED, "every record is copied or on record as lost")
    except GaveUp as problem:
        known = recorded_losses(target.bootstrap, alias, topic)
        raise GaveUp(f"{problem}: {found[-1]}; on record: {known}") from None
    if not mode.repeats_allowed:
        verdict = compare(ledger.written, read_topic(target.bootstrap, f"{alias}.{topic}"))
        assert verdict.duplicated == (), verdict
    return found[-1]
