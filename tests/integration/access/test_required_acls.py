"""The list of ACLs is complete and minimal, and messages name what is missing.

The tests of a mode share a node: in the first one it starts without any ACL and gets what messages ask for, in the
others it loses ACLs while it runs. Each of the others also passes alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import javaproperties
import pytest
from confluent_kafka.admin import AclOperation

from mm2.cli.commands import execute, mm2_app
from mm2.client import MirrorClient
from mm2.client.mirror_client import NoCheckpoints
from mm2.core.access.required_acls import AclRole, RequiredAcl
from mm2.core.topics.acls import Operation
from mm2.core.wire.formats import Heartbeat
from mm2.kafka.errors import BrokerError
from tests.faults.mode import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.integration.access.guarded_flow import FLOW, NAMED, PROGRAM, GuardedFlow, rights_in, security
from tests.integration.guarded.permissions import add, binding
from tests.integration.guarded.test_topic_acls import acls_of
from tests.lab.commands import run
from tests.lab.groups import commit, committed
from tests.lab.history import read_topic
from tests.lab.ports import HOST
from tests.lab.records import Outgoing, plain, write
from tests.lab.topic_configs import alter, configs
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

pytestmark = pytest.mark.timeout(600)  # seconds: a start without any ACL, or four rounds of missing ones

IN_GATE = (
    EXACTLY_ONCE,
    pytest.param(AT_LEAST_ONCE, marks=pytest.mark.long),
)  # both need the same ACLs
STARTED = 240.0  # seconds until the node has asked for all ACLs: about 50 steps
COPIED = 60.0
ROUND = 3.0  # seconds between records: what was not permitted is used again with the next ones
TOPIC = "orders-a"
GROUP = "orders-group"
GROWN = 3  # partitions of each topic, which are created with fewer
TOPICS = 3  # orders-a, payments and heartbeats


def invisible(flow: GuardedFlow) -> list[RequiredAcl]:
    """Return the ACLs that no message can ask for at the start: of topics that a broker then leaves out of its list."""
    return flow.named("READ on topic with prefix orders- of cluster A", "READ on topic heartbeats of cluster A")


def used_by_commands(flow: GuardedFlow) -> list[RequiredAcl]:
    """Return the ACLs that only commands of mm2 need."""
    return flow.named("READ on topic heartbeats of cluster B", "READ on topic A.heartbeats of cluster B")


def create_topics(flow: GuardedFlow) -> None:
    """Create the topics, with records, an ACL and a committed offset, unless an earlier test has."""
    if flow.source.partition_count(TOPIC):
        return
    flow.source.create_topic("heartbeats", 1)
    upstream = Heartbeat(source="X", target="A", timestamp_ms=0)
    write(flow.source.bootstrap, "heartbeats", [Outgoing(key=upstream.key(), value=upstream.value(), partition=0)])
    for topic in (TOPIC, "payments"):
        flow.source.create_topic(topic, 2)
        write(flow.source.bootstrap, topic, plain(100, partitions=2))
        add(flow.source, binding(AclOperation.READ, topic, principal="alice"))
        commit(flow.source, GROUP, {(topic, 0): 40})


def run_with_all_acls(flow: GuardedFlow) -> None:
    """Let the node do everything, and wait until it does."""
    create_topics(flow)
    never = used_by_commands(flow)
    flow.allow([one for one in flow.required if one not in flow.allowed and one not in never])
    if flow.source.partition_count(TOPIC) < GROWN:
        use_every_feature(flow)
    flow.wait_nothing_missing()
    for topic in (TOPIC, "payments", "heartbeats"):
        wait_until(partial(_has_grown, flow, f"A.{topic}"), NAMED, "remote topics have grown")
    for topic in (TOPIC, "payments"):
        wait_until(partial(offset_is_synced, flow, f"A.{topic}", 0), NAMED, "offsets are synced")


def _has_grown(flow: GuardedFlow, remote: str) -> bool:
    return flow.target.partition_count(remote) >= GROWN


def use_every_feature(flow: GuardedFlow) -> None:
    """Change on the source what the flow syncs."""
    for topic in (TOPIC, "payments", "heartbeats"):
        flow.source.grow_topic(topic, GROWN)
        alter(flow.source, topic, "retention.ms", "123456789")


def write_and_consume(flow: GuardedFlow, rounds: int) -> int:
    """Write to both topics, let the group consume most of it, and return its offset; ``rounds``: earlier calls."""
    consumed = 50 + 10 * rounds + 8  # in partition 0, which had 50 records
    for topic in (TOPIC, "payments"):
        write(flow.source.bootstrap, topic, plain(20, partitions=2, first=100 + 20 * rounds))
        commit(flow.source, GROUP, {(topic, 0): consumed})
    return consumed


def offset_is_synced(flow: GuardedFlow, remote: str, consumed: int) -> bool:
    """Markers, of transactions or from fencing, have offsets too."""
    return consumed <= committed(flow.target, GROUP).get((remote, 0), -1)


@pytest.mark.long  # the list: test_client_library_needs_exactly_its_acls; messages: guarded/test_permissions.py
@pytest.mark.parametrize("guarded", IN_GATE, ids=str, indirect=True)
def test_messages_lead_from_nothing_to_exactly_the_listed_acls(guarded: GuardedFlow) -> None:
    source, target, node = guarded.source, guarded.target, guarded.node
    create_topics(guarded)
    node.wait_answering()
    guarded.allow(invisible(guarded))
    never = used_by_commands(guarded)
    deadline, rounds, next_round = time.monotonic() + STARTED, 0, float("inf")
    while time.monotonic() < deadline and len(guarded.allowed) < len(guarded.required) - len(never):
        for right in guarded.missing():
            wanted = guarded.allowing(right)
            assert wanted, f"a message asks for an ACL that is not listed: {right}"
            guarded.allow([one for one in wanted if one not in guarded.allowed])
        if not rounds and node.healthy and len(node.flow(FLOW).get("topics", ())) == TOPICS:
            use_every_feature(guarded)
            next_round = time.monotonic()
        if time.monotonic() >= next_round:
            write_and_consume(guarded, rounds)
            rounds, next_round = rounds + 1, time.monotonic() + ROUND
        time.sleep(0.2)
    unasked = {str(one) for one in guarded.required} - {str(one) for one in guarded.allowed}
    if late := unasked - {str(one) for one in never}:
        raise GaveUp(f"not within {STARTED:g} s: messages ask for {sorted(late)}")
    assert unasked == {str(one) for one in never}
    consumed = write_and_consume(guarded, rounds)
    guarded.wait_nothing_missing()

    for topic in (TOPIC, "payments"):
        remote = f"A.{topic}"
        copies = (source.bootstrap, topic), (target.bootstrap, remote)
        # a node without READ on the group is no member: it stores no offsets, and repeats records
        wait_until_copied(*copies, COPIED, repeats_allowed=guarded.mode.repeats_allowed)
        assert target.partition_count(remote) == GROWN
        assert configs(target, remote)["retention.ms"] == ("123456789", True)
        assert ("User:alice", "*", "READ", "ALLOW") in acls_of(target, remote)
        wait_until(partial(offset_is_synced, guarded, remote, consumed), NAMED, "offsets are synced")
    assert read_topic(target.bootstrap, "heartbeats")[0]


@pytest.mark.parametrize("guarded", IN_GATE, ids=str, indirect=True)
@pytest.mark.long  # each missing ACL is named in test_messages_lead_from_nothing_to_exactly_the_listed_acls
def test_a_running_flow_names_a_withdrawn_acl_and_recovers(guarded: GuardedFlow) -> None:
    run_with_all_acls(guarded)
    for some, use in rounds(guarded):
        guarded.forget_messages()
        guarded.withdraw(some)
        use()
        guarded.wait_named(some)
        guarded.allow(some)
        guarded.wait_nothing_missing()
    for topic in (TOPIC, "orders-new"):
        copies = (guarded.source.bootstrap, topic), (guarded.target.bootstrap, f"A.{topic}")
        # READ on the group was missing: a node that lost its membership stores nothing more, and repeats records
        wait_until_copied(*copies, COPIED, repeats_allowed=guarded.mode.repeats_allowed)
    assert len(read_topic(guarded.target.bootstrap, "mm2-dead-letters.A.internal")[0]) == 1


def rounds(flow: GuardedFlow) -> list[tuple[list[RequiredAcl], Callable[[], None]]]:
    """Return ACLs that are withdrawn together, since none hides that another one is missing, and what uses them."""
    source, target = flow.source, flow.target

    def write_more() -> None:
        write(source.bootstrap, TOPIC, plain(100, partitions=3, first=200))

    def reject_a_record() -> None:
        alter(target, "A.payments", "max.message.bytes", "2000")
        write(source.bootstrap, "payments", [Outgoing(key=b"k", value=bytes(5_000), partition=0)])

    def change() -> None:
        write_more()
        alter(source, TOPIC, "retention.ms", "987654321")
        source.grow_topic(TOPIC, 4)
        source.create_topic("orders-new", 1)
        reject_a_record()
        add(source, binding(AclOperation.READ, TOPIC, principal="bob"))
        commit(source, GROUP, {(TOPIC, 0): 30})
        assert run("mm2", "refresh", str(flow.node.file), "--flow", FLOW).code == 0, "it does not need the audit topic"

    of_both = flow.named(
        "READ on topic heartbeats of cluster A",
        "DESCRIBE_CONFIGS on topic payments of cluster A",
        "READ on topic mm2-offset-syncs.B.internal of cluster A",
        "READ on topic mm2-exact-offsets.A.internal of cluster B",
        "READ on topic mm2-losses.A.internal of cluster B",
        "READ on topic mm2-configs.A.internal of cluster B",
        "READ on topic mm2-status.A.internal of cluster B",
        "WRITE on topic heartbeats of cluster B",
        "WRITE on topic with prefix A.orders- of cluster B",
        "CREATE on topic with prefix A.orders- of cluster B",
        "ALTER on topic with prefix A.orders- of cluster B",
        "ALTER_CONFIGS on topic with prefix A.orders- of cluster B",
        "ALTER on cluster B",
        "READ on group with prefix orders- of cluster B",
        "WRITE on topic mm2-dead-letters.A.internal of cluster B",
        "WRITE on topic mm2-audit.A.internal of cluster B",
    )
    of_positions = flow.named(
        "DESCRIBE on group with prefix orders- of cluster A",  # without DESCRIBE on the cluster, it would be invisible
        "WRITE on topic mm2-offsets.A.internal of cluster B",
        "WRITE on topic mm2-status.A.internal of cluster B",
    )
    found = [
        (of_both, change),
        (of_positions, write_more),
        (flow.named("READ on group A-mm2 of cluster B"), write_more),
    ]
    if flow.mode.exactly_once:
        prefix = "WRITE on transactional id with prefix A-mm2-MirrorSourceConnector- of cluster B"
        found.append((flow.named(prefix), write_more))
    return found


@pytest.mark.parametrize("guarded", IN_GATE, ids=str, indirect=True)
def test_client_library_needs_exactly_its_acls(guarded: GuardedFlow) -> None:
    run_with_all_acls(guarded)
    listed = [one for one in guarded.listed if one.role is AclRole.CLIENT]
    read = [one for one in listed if one.operation is Operation.READ]
    guarded.allow_program(listed)
    with MirrorClient(security(guarded.target, PROGRAM)) as client:
        assert client.remote_topics() >= {f"A.{TOPIC}", "A.payments", "A.heartbeats"}
        assert client.heartbeat_topics() == {"heartbeats", "A.heartbeats"}
        assert client.upstream_clusters() == {"A"}
        assert client.remote_consumer_offsets(GROUP, "A")
        for one in listed:
            if one not in read:
                before = client.remote_topics() | client.heartbeat_topics()
                guarded.forbid_program([one])
                assert client.remote_topics() | client.heartbeat_topics() < before, f"{one} is superfluous"
        guarded.forbid_program(read)
        with pytest.raises((BrokerError, NoCheckpoints), match=r"requires READ on topic A\.checkpoints\.internal"):
            client.remote_consumer_offsets(GROUP, "A")


@pytest.mark.parametrize("guarded", IN_GATE, ids=str, indirect=True)
def test_translation_of_positions_needs_exactly_its_acls(
    guarded: GuardedFlow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a user of its own on the target, and while the source is down."""
    run_with_all_acls(guarded)
    listed = [one for one in guarded.listed if one.role is AclRole.TRANSLATE and one.cluster == "B"]
    own = {"A.bootstrap.servers": f"{HOST}:1"}
    own |= {f"B.{key}": value for key, value in security(guarded.target, PROGRAM).items()}
    lost = tmp_path / "lost.properties"
    lost.write_text(javaproperties.dumps({**javaproperties.loads(guarded.node.file.read_text()), **own}))
    place = ("--topic", TOPIC, "--partition", "0")

    def messages() -> str:
        found = []
        for words in (("--groups", GROUP), (*place, "--time", "0")):
            execute(mm2_app(), ["translate", str(lost), "--flow", FLOW, *words])
            found.append(capsys.readouterr().err)
        return "".join(found)

    guarded.allow_program(listed)
    assert not rights_in(messages())
    others = ("A.payments", "A.heartbeats")
    for one in listed:
        if one.pattern.name not in others:
            guarded.forbid_program([one])
            rights = rights_in(messages())
            assert any(one.allows(right) for right in rights), f"{one} is superfluous, or not named"
            guarded.allow_program([one])
    guarded.forbid_program(listed)


@pytest.mark.parametrize("guarded", IN_GATE, ids=str, indirect=True)
def test_a_command_names_the_missing_acl(guarded: GuardedFlow) -> None:
    run_with_all_acls(guarded)
    command = ("mm2", "heartbeats", str(guarded.node.file))
    for one in used_by_commands(guarded):
        denied = run(*command)
        rights = rights_in(denied.stdout + denied.stderr)
        assert any(one.allows(right) for right in rights), denied
        guarded.allow([one])
    assert run(*command).code == 0


@pytest.mark.parametrize("guarded", IN_GATE, ids=str, indirect=True)
@pytest.mark.long  # tests/unit/node/leader/test_hidden_topics.py
def test_refresh_forgets_topics_that_are_not_visible(guarded: GuardedFlow) -> None:
    """As when a topic was deleted with its ACLs: a broker does not say whether it exists."""

    def shown() -> set[str]:
        return {one["topic"] for one in guarded.node.flow(FLOW).get("topics", ())}

    run_with_all_acls(guarded)
    some = guarded.named(
        "READ on topic with prefix orders- of cluster A",
        "READ on topic payments of cluster A",
        "DESCRIBE on cluster A",
    )
    guarded.forget_messages()
    before = shown()
    guarded.withdraw(some)
    guarded.wait_named(some)
    assert shown() == before, "they are not regarded as deleted"
    guarded.node.stop()
    guarded.forget_messages()
    guarded.node.start()
    guarded.wait_named(some)
    wait_until(lambda: shown() == before, NAMED, "the next leader does not regard them as deleted, either")
    assert {one["topic"]: one["state"] for one in guarded.node.flow(FLOW)["topics"]}[TOPIC] == "FAILED"
    assert run("mm2", "refresh", str(guarded.node.file), "--flow", FLOW).code == 0
    left = {"heartbeats", "payments"}  # the file names payments
    wait_until(lambda: shown() == left, NAMED, "topics that are not visible are forgotten")
    guarded.allow(some)
    wait_until(lambda: shown() == before, NAMED, "they are visible again")
    guarded.wait_nothing_missing()
