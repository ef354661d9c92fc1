"""``mm2 copy-again`` on a running node."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mm2.core.naming.names import TopicPartition
from tests.integration.shared_node import COPIED, SEEN, Mirror, SharedNode
from tests.integration.test_flow_groups import checkpoints, latest, wait_checkpoints
from tests.lab.checkpoints import going_back
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import Outcome, run
from tests.lab.exact_map import judge, read_segments
from tests.lab.groups import commit
from tests.lab.history import Content, read_topic
from tests.lab.node import RUNS_WITHIN, Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

RECORDS = 500


def copy_again(flow: Mirror, topic: str, *more: str) -> Outcome:
    return run("mm2", "copy-again", str(flow.node.file), "--flow", flow.name, "--topic", topic, *more)


def contents(cluster: KafkaCluster, topic: str, partition: int = 0) -> list[Content]:
    return [one.content for one in read_topic(cluster.bootstrap, topic).get(partition, ())]


def test_a_topic_is_copied_again_and_groups_never_move_back(shared: SharedNode) -> None:
    flow = shared.plain
    topic, group = flow.create("again", 2), flow.named("again-group")
    remote, each = flow.remote(topic), RECORDS // 2
    write(flow.source.bootstrap, topic, plain(RECORDS, partitions=2))
    flow.wait_copied(topic, repeats_allowed=True)
    commit(flow.source, group, {(topic, 0): 100, (topic, 1): each})
    wait_checkpoints(flow, group, remote, {0: 100, 1: each})

    preview = copy_again(flow, topic, "--partition", "0", "--from", "50")
    assert (preview.code, "confirm with --yes" in preview.stderr) == (2, True)
    assert f"partition 0: offsets 50-{each - 1}, at most {each - 50} records" in preview.stdout
    assert not flow.node.flow(flow.name)["copying_again"]
    since = copy_again(flow, topic, "--from", "2020-01-01T00:00:00Z").stdout
    assert all(f"partition {number}: offsets 0-{each - 1}, at most {each} records" in since for number in (0, 1))
    refused = copy_again(flow, topic, "--partition", "0", "--from", str(each + 1), "--yes")
    assert (refused.code, "would be skipped" in refused.stderr) == (1, True)

    done = copy_again(flow, topic, "--partition", "0", "--from", "50", "--yes", "--reason", "CHG-1")
    assert (done.code, done.stderr) == (0, "")
    original = contents(flow.source, topic)
    wanted = [*original, *original[50:]]
    wait_until(lambda: len(contents(flow.target, remote)) >= len(wanted), SEEN, "it is copied again")
    write(flow.source.bootstrap, topic, plain(20, first=RECORDS, partitions=2))
    wanted += contents(flow.source, topic)[each:]
    wait_until(lambda: len(contents(flow.target, remote)) >= len(wanted), SEEN, "new records follow")
    assert contents(flow.target, remote) == wanted
    assert contents(flow.target, remote, 1) == contents(flow.source, topic, 1)

    places = [one.offset for one in read_topic(flow.target.bootstrap, remote)[0] if one.content == original[100]]

    def is_moved() -> tuple[bool, int | None]:
        found = latest(flow, group, remote).get(0)
        return found is not None and found.downstream == places[-1], None if found is None else found.downstream

    assert len(places) == 2
    wait_until(
        lambda: is_moved()[0],
        SEEN,
        f"the group's position {is_moved()[1]} moves from {places}",
    )
    assert going_back(checkpoints(flow, group)) == []
    partition = TopicPartition(topic, 0)
    segments = read_segments(flow.target.bootstrap, f"mm2-exact-offsets.{flow.source_alias}.internal")[partition]
    source, copied = (
        read_topic(*place)[0] for place in ((flow.source.bootstrap, topic), (flow.target.bootstrap, remote))
    )
    assert judge(segments, source, copied).conservative == frozenset()

    wait_until(lambda: not flow.node.flow(flow.name)["copying_again"], SEEN, "it is noted that it has caught up")
    answer = flow.node.get(f"/flows/{flow.source_alias}/{flow.target_alias}/partitions/{topic}/0")
    assert answer is not None
    texts = [one["text"] for one in answer.json()["events"]]
    assert "admin requested to copy it again from offset 50: CHG-1" in texts
    assert f"copied offsets 50-{each - 1} again" in texts


# two starts of Spark; in the gate: the test above, and tests/unit/node/leader/test_repeat_writer.py loses a leader at
# each of its writes
@pytest.mark.long
def test_exactly_once_with_a_node_that_is_killed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """After each kill the old position counts, or the new start: no record is skipped, and none is copied twice."""
    a, b = unique("A"), unique("B")
    topic, name = cluster_a.create_topic(unique(f"{a}-again")), f"{a}->{b}"
    write(cluster_a.bootstrap, topic, plain(5_000))
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "mm2.rest.admin": "true",
        "mm2.rest.admin.token": "token-of-this-test",
        f"{b}.exactly.once.source.support": "enabled",
        f"{b}.session.timeout.ms": "6000",
    }
    original = contents(cluster_a, topic)

    def copied() -> list[Content]:
        return contents(cluster_b, f"{a}.{topic}")

    def rest(node: Node, wanted: list[Content]) -> None:
        wait_until(lambda: len(copied()) >= len(wanted), COPIED, f"{len(wanted)} records are copied")
        assert copied() == wanted
        done = "what was copied again has caught up"
        wait_until(lambda: node.flow(name).get("copying_again") == [], SEEN, done)
        assert copied() == wanted

    def again(first: int) -> Outcome:
        return run("mm2", "copy-again", str(node.file), "--flow", name, "--topic", topic, "--from", str(first), "--yes")

    with Node(properties) as node, ThreadPoolExecutor() as threads:
        node.wait_running()
        rest(node, original)
        assert again(1_000).code == 0
        node.kill()
        node.start()
        node.wait_running(RUNS_WITHIN)
        wanted = [*original, *original[1_000:]]
        rest(node, wanted)

        attempt = threads.submit(again, 4_000)
        node.process.wait_until_output('"offset":4000', SEEN, "the node has the command")
        node.kill()
        attempt.result(COPIED)
        node.start()
        node.wait_running(RUNS_WITHIN)
        wait_until(lambda: node.flow(name).get("copying_again") == [], COPIED, "nothing is left half done")
        wanted = wanted if len(copied()) == len(wanted) else [*wanted, *original[4_000:]]
        rest(node, wanted)
        write(cluster_a.bootstrap, topic, plain(10, first=5_000))
        rest(node, [*wanted, *contents(cluster_a, topic)[5_000:]])
