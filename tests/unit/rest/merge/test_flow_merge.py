"""Letters refer to the invariants of `mm2.rest.merge.flow_merge`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from mm2.core.lanes.losses import Loss
from mm2.core.lanes.partition_steps import RecentWaits, Wait
from mm2.core.lanes.task_states import TaskState
from mm2.core.observation.unreplicated import unreplicated
from mm2.node.status.status_model import AssignmentAuditStatus, FlowStatus, PartitionStatus, TaskStatus
from mm2.rest.merge.flow_merge import FlowShare, merge_flow, share_of
from tests.contract.samples import flow, member, partition, task, topic

SOURCE_0, SOURCE_1, CHECKPOINT = "MirrorSourceConnector-0", "MirrorSourceConnector-1", "MirrorCheckpointConnector-0"
MEMBERS = (member("a", "http://a", SOURCE_0, leads=True), member("b", "http://b", SOURCE_1, CHECKPOINT))


def share(node: str, status: FlowStatus) -> FlowShare:
    return FlowShare(node=node, leads=status.is_leader, flow=status)


def copied(number: int, node: str, **changes: object) -> PartitionStatus:
    """Return a partition that ``node`` copies in the source task of the same number."""
    return partition(number, node=node, source_task=number, **changes)


def assigned_to(number: int, node: str) -> PartitionStatus:
    """Return a partition assigned to ``node``, as the leader records it."""
    return partition(
        number, node=node, source_task=number, state=TaskState.WAITING, position=None, end_offset=None, lag_records=None
    )


def leader(*topics: object, **changes: object) -> FlowStatus:
    """Return the flow of node a: the leader, which copies orders-0 and has assigned orders-1 to b."""
    tasks = (
        task(id=SOURCE_0, node="a"),
        task(id=SOURCE_1, node="b", state=TaskState.WAITING),
        task(id=CHECKPOINT, node="b", kind="checkpoint", state=TaskState.WAITING),
    )
    of_leader = {"leader": "a", "members": MEMBERS, "tasks": tasks, **changes}
    return flow(*(topics or (topic("orders", copied(0, "a"), assigned_to(1, "b")),)), **of_leader)  # type: ignore[arg-type]


def follower(*topics: object, **changes: object) -> FlowStatus:
    """Return the flow of node b, which copies orders-1."""
    tasks: tuple[TaskStatus, ...] = (task(id=SOURCE_1, node="b"), task(id=CHECKPOINT, node="b", kind="checkpoint"))
    of_follower = {"leader": "a", "is_leader": False, "members": MEMBERS, "tasks": tasks, **changes}
    found = topics or (topic("orders", copied(1, "b", position=500, end_offset=500, lag_records=0)),)
    return flow(*found, **of_follower)  # type: ignore[arg-type]


A, B = share("a", leader()), share("b", follower())


def partitions(shape: FlowStatus) -> dict[tuple[str, int], PartitionStatus]:
    return {(one.topic, part.partition): part for one in shape.topics for part in one.partitions}


def test_flow_with_one_member_is_unchanged() -> None:
    alone = share("a", flow())
    sums = unreplicated(one for topic in alone.flow.topics for one in topic.partitions)
    assert merge_flow(alone, {}) == replace(alone.flow, unreplicated=sums)


@pytest.mark.parametrize("own", ["a", "b"])
def test_every_node_returns_the_same_flow(own: str) -> None:
    whole = merge_flow(A, {"b": B}) if own == "a" else merge_flow(B, {"a": A})
    assert whole == merge_flow(A, {"b": B})
    assert (whole.state, whole.leader, whole.epoch, whole.reasons) == (TaskState.RUNNING, "a", 7, ())
    assert [(one.id, one.node, one.state) for one in whole.tasks] == [
        (SOURCE_0, "a", TaskState.RUNNING),
        (SOURCE_1, "b", TaskState.RUNNING),
        (CHECKPOINT, "b", TaskState.RUNNING),
    ]
    (orders,) = whole.topics
    assert [(one.partition, one.node, one.source_task, one.position) for one in orders.partitions] == [
        (0, "a", 0, 90),
        (1, "b", 1, 500),
    ]
    assert orders.state is TaskState.RUNNING
    assert [one.node for one in whole.members] == ["a", "b"]


SHARE = TypeAdapter(FlowShare)


def test_json_round_trip_of_a_share() -> None:
    read = SHARE.validate_json(SHARE.dump_json(A))
    assert (read.node, read.leads, read.flow.topics[0].partitions[0].position) == ("a", True, 90)
    assert (read.flow.batches, read.flow.topics[0].partitions[0].counters.records) == ((), 0)
    assert SHARE.dump_json(read) == SHARE.dump_json(A)


PAUSED = {"state": TaskState.PAUSED}


@pytest.mark.parametrize(
    ("paused", "state"),
    [
        (("orders",), TaskState.RUNNING),
        (("orders", "users"), TaskState.PAUSED),
        (("",), TaskState.PAUSED),
        (("", "orders"), TaskState.PAUSED),
    ],
)
def test_e_only_a_flow_that_is_paused_as_a_whole_is_paused(paused: tuple[str, ...], state: TaskState) -> None:
    """Node b copies only the paused topic, and its task and its share of the flow are PAUSED."""
    orders, users = topic("orders", copied(1, "b", **PAUSED), **PAUSED), topic("users", copied(0, "a"))
    of_b = follower(orders, paused=paused, tasks=(task(id=SOURCE_1, node="b", **PAUSED),), **PAUSED)
    of_a = leader(orders, users, paused=paused, tasks=(task(id=SOURCE_0, node="a"), *of_b.tasks))
    for own, other in ((share("a", of_a), share("b", of_b)), (share("b", of_b), share("a", of_a))):
        whole = merge_flow(own, {other.node: other})
        assert whole.state is state
        assert [one.state for one in whole.topics] == [TaskState.PAUSED, TaskState.RUNNING]


def test_e_a_task_that_only_moves_does_not_change_the_state_of_the_flow() -> None:
    moves = task(id=CHECKPOINT, node="b", kind="checkpoint", state=TaskState.WAITING, only_moves=True)
    of_a = share("a", leader(tasks=(task(id=SOURCE_0, node="a"), moves)))
    of_b = share("b", follower(tasks=(task(id=SOURCE_1, node="b"),)))
    assert merge_flow(of_a, {"b": of_b}).state is TaskState.RUNNING
    silent = merge_flow(of_a, {"b": "connection refused"})
    assert (silent.state, silent.tasks[1].only_moves) == (TaskState.WAITING, False)


def test_share_of_another_release() -> None:
    fields = SHARE.dump_python(B, mode="json")
    for name in ("members", "paused", "assignment_audit"):
        del fields["flow"][name]
    fields["flow"]["speed"] = 5
    assert SHARE.validate_python(fields).flow.members == ()


def test_b_outdated_state_from_the_leader_is_replaced() -> None:
    old = leader(topic("orders", copied(0, "a"), copied(1, "b", state=TaskState.FAILED, error="it was too large")))
    whole = merge_flow(share("a", old), {"b": B})
    assert partitions(whole)["orders", 1].error is None
    assert whole.state is TaskState.RUNNING


@pytest.mark.parametrize("state", [TaskState.WAITING, TaskState.FAILED])
def test_b_outdated_task_state_does_not_affect_the_flow(state: TaskState) -> None:
    old = share("a", leader(tasks=(task(id=SOURCE_0, node="a"), task(id=SOURCE_1, node="b", state=state)), state=state))
    assert merge_flow(old, {"b": B}).state is TaskState.RUNNING
    troubled = share("a", leader(topic("orders", copied(0, "a")), tasks=(task(id=SOURCE_0, node="a"),), state=state))
    assert merge_flow(troubled, {"b": B}).state is state


def test_b_moving_partition_belongs_to_the_node_that_still_runs_it() -> None:
    """The leader assigned orders-1 to a; b has not stopped it yet."""
    moving = leader(topic("orders", copied(0, "a"), assigned_to(1, "a")))
    whole = merge_flow(share("a", moving), {"b": share("b", follower())})
    assert (partitions(whole)["orders", 1].node, partitions(whole)["orders", 1].position) == ("b", 500)
    moving = leader(topic("orders", copied(0, "a"), assigned_to(1, "")), tasks=(task(id=SOURCE_1, node=""),))
    whole = merge_flow(share("a", moving), {"b": B})
    assert (partitions(whole)["orders", 1].node, partitions(whole)["orders", 1].position) == ("b", 500)
    assert [(one.id, one.node) for one in whole.tasks] == [(SOURCE_1, "b")]


def test_b_assigned_node_has_precedence() -> None:
    third = share("c", follower(topic("orders", copied(1, "c", position=3)), tasks=(task(id=SOURCE_1, node="c"),)))
    whole = merge_flow(A, {"b": B, "c": third})
    assert partitions(whole)["orders", 1].node == "b"
    assert [one.node for one in whole.tasks if one.id == SOURCE_1] == ["b"]


def test_b_running_node_has_precedence_if_none_is_assigned() -> None:
    unassigned = leader(topic("orders", assigned_to(1, "")), tasks=(task(id=SOURCE_1, node=""),))
    ended = share("b", follower(topic("orders", copied(1, "b", state=TaskState.STOPPED))))
    third = share("c", follower(topic("orders", copied(1, "c")), tasks=(task(id=SOURCE_1, node="c"),)))
    whole = merge_flow(share("a", unassigned), {"b": ended, "c": third})
    assert partitions(whole)["orders", 1].node == "c"


def test_assigned_partition_that_is_not_running() -> None:
    """b has not started it yet: only the leader's assignment is known."""
    whole = merge_flow(A, {"b": share("b", follower(topic("users"), tasks=()))})
    assert (partitions(whole)["orders", 1].state, partitions(whole)["orders", 1].node) == (TaskState.WAITING, "b")
    assert whole.state is TaskState.WAITING


def test_a_topics_and_tasks_unknown_to_the_leader_are_omitted() -> None:
    """A deleted topic or an unexpected task: the assignment audit reports them."""
    more = follower(
        topic("orders", copied(1, "b"), copied(2, "b")),
        topic("deleted", copied(0, "b")),
        tasks=(task(id="MirrorSourceConnector-9", node="b"),),
    )
    whole = merge_flow(A, {"b": share("b", more)})
    assert list(partitions(whole)) == [("orders", 0), ("orders", 1)]
    assert "MirrorSourceConnector-9" not in [one.id for one in whole.tasks]


def test_c_unreachable_node() -> None:
    stale = leader(topic("orders", copied(0, "a"), copied(1, "b", position=40, error="slow", lag_seconds=9.0)))
    whole = merge_flow(share("a", stale), {"b": "http://b did not answer within 2 s"})
    unseen = partitions(whole)["orders", 1]
    assert (unseen.state, unseen.position, unseen.end_offset, unseen.lag_records) == (
        TaskState.WAITING,
        None,
        None,
        None,
    )
    assert (unseen.error, unseen.lag_seconds, unseen.node, unseen.source_task) == (None, None, "b", 1)
    assert [(one.id, one.state) for one in whole.tasks] == [
        (SOURCE_0, TaskState.RUNNING),
        (SOURCE_1, TaskState.WAITING),
        (CHECKPOINT, TaskState.WAITING),
    ]
    assert whole.state is TaskState.WAITING
    assert whole.reasons == ("state of node b is unknown: http://b did not answer within 2 s",)


def test_c_unreachable_leader() -> None:
    """Its tasks are known from the members only, and its topics are unknown."""
    ends = "http://a is not reachable"
    whole = merge_flow(B, {"a": ends})
    assert (whole.leader, whole.epoch) == ("a", 7)
    assert [(one.id, one.kind, one.node, one.state) for one in whole.tasks] == [
        (CHECKPOINT, "checkpoint", "b", TaskState.RUNNING),
        (SOURCE_0, "source", "a", TaskState.WAITING),
        (SOURCE_1, "source", "b", TaskState.RUNNING),
    ]
    assert list(partitions(whole)) == [("orders", 1)]
    assert whole.state is TaskState.WAITING
    strange = follower(members=(member("a", "", "MirrorSomethingConnector-0"), MEMBERS[1]))
    whole = merge_flow(share("b", strange), {"a": ends})
    assert [one.kind for one in whole.tasks if one.node == "a"] == ["something"]


LISTED = (topic("orders", assigned_to(0, "a")), topic("users", assigned_to(0, ""), assigned_to(1, "a")))
"""Partitions that node b does not run itself, from the lists published by the last leader."""


def test_a_partitions_of_an_unreachable_leader_are_listed_as_unknown() -> None:
    """The lag of the other nodes alone would hide that a third of the flow is not copied."""
    whole = merge_flow(share("b", follower(elsewhere=LISTED)), {"a": "http://a is not reachable"})
    shown = partitions(whole)
    assert list(shown) == [("orders", 0), ("orders", 1), ("users", 0), ("users", 1)]
    assert shown["orders", 1].lag_records == 0
    for key in (("orders", 0), ("users", 0), ("users", 1)):
        assert (shown[key].state, shown[key].position, shown[key].lag_records) == (TaskState.WAITING, None, None)


def test_a_new_leader_lists_published_partitions_before_it_has_read_the_topics() -> None:
    """Both alone and with another node."""
    new = share_of("b", follower(elsewhere=LISTED, is_leader=True, members=MEMBERS[1:]))
    assert not new.leads
    third = share("c", follower(topic("users", copied(0, "c", position=7)), tasks=()))
    for responses, position in (({}, None), ({"c": third}, 7)):
        shown = partitions(merge_flow(new, responses))
        assert list(shown) == [("orders", 0), ("orders", 1), ("users", 0), ("users", 1)]
        assert (shown["users", 0].position, shown["users", 1].position) == (position, None)
    assert share_of("b", follower(is_leader=True)).leads


def test_f_outdated_progress_of_a_partition_that_its_node_does_not_run_is_unknown() -> None:
    """Its node crashed, and the leader had copied the partition before that node did."""
    old = leader(topic("orders", copied(0, "a"), copied(1, "b", position=100, lag_records=0)))
    whole = merge_flow(share("a", old), {"b": share("b", follower(topic("users"), tasks=()))})
    orders = partitions(whole)["orders", 1]
    assert (orders.position, orders.end_offset, orders.lag_records, orders.lag_seconds) == (None,) * 4


def test_f_progress_of_a_partition_that_no_node_runs_is_what_the_leader_has_found() -> None:
    found = copied(1, "", position=80, end_offset=100, lag_records=20, lag_seconds=None)
    whole = merge_flow(
        share("a", leader(topic("orders", copied(0, "a"), found))),
        {"b": share("b", follower(topic("users"), tasks=()))},
    )
    assert partitions(whole)["orders", 1] == found


def test_a_everything_is_listed_once_without_a_leader() -> None:
    third = follower(
        topic("users", copied(0, "c")),
        topic(
            "orders",
            copied(0, "c", position=7),
            assigned_to(1, "b"),
            error="remote topic was deleted",
            state=TaskState.FAILED,
        ),
        tasks=(task(id=SOURCE_0, node="c"),),
        leader=None,
    )
    whole = merge_flow(B, {"c": share("c", third), "a": "it is away"})
    assert [(one.topic, len(one.partitions)) for one in whole.topics] == [("orders", 2), ("users", 1)]
    assert partitions(whole)["orders", 0].position == 7
    assert partitions(whole)["orders", 1].position == 500
    assert (whole.topics[0].state, whole.topics[0].error) == (TaskState.FAILED, "remote topic was deleted")
    assert whole.state is TaskState.FAILED


def test_d_leader_of_the_newest_epoch_describes_the_flow() -> None:
    counts = {"tasks": AssignmentAuditStatus(assigned=3)}
    zombie = share("a", leader(epoch=7, paused=("users",), members=MEMBERS[:1]))
    new = share("b", leader(epoch=8, leader="b", assignment_audit=counts, paused=("orders",), members=MEMBERS[1:]))
    for whole in (merge_flow(zombie, {"b": new}), merge_flow(new, {"a": zombie})):
        assert (whole.leader, whole.epoch, whole.paused) == ("b", 8, ("orders",))
        assert whole.assignment_audit["tasks"].assigned == 3
        assert [one.node for one in whole.members] == ["b"]


def test_d_newest_epoch_is_used_while_its_leader_is_unreachable() -> None:
    zombie = share("a", leader(epoch=7))
    whole = merge_flow(share("b", follower(epoch=8, leader="c")), {"a": zombie, "c": "away"})
    assert (whole.leader, whole.epoch) == ("c", 8)


def test_enabled_is_read_from_the_nodes_own_file() -> None:
    assert merge_flow(share("b", follower(enabled=False)), {"a": A}).enabled is False


def test_reasons_are_listed_once_with_their_nodes() -> None:
    """Errors of tasks are shown there and not repeated. Those of topics and partitions are grouped, of all nodes."""
    first = share("a", leader(reasons=("cluster A is slow",)))
    failed = topic(
        "orders", copied(1, "b", state=TaskState.FAILED, error="offset 17: too large"), state=TaskState.FAILED
    )
    second = share("b", follower(failed, reasons=("cluster A is slow", "no room in Spark", "offset 17: too large")))
    third = share("c", follower(topic("users"), tasks=(), reasons=("no room in Spark",)))
    whole = merge_flow(second, {"a": first, "c": third, "d": "it is away"})
    assert whole.reasons == (
        "cluster A is slow",
        "topic orders partition 1: offset 17: too large",
        "on b, c: no room in Spark",
        "state of node d is unknown: it is away",
    )
    assert whole.state is TaskState.FAILED


def test_loss_reported_by_several_nodes_is_merged() -> None:
    short = Loss(topic="orders", partition=1, first=10, until=15, reason="gone", kind="retention")
    long = Loss(topic="orders", partition=1, first=10, until=25, reason="gone", kind="retention")
    other = Loss(topic="orders", partition=0, first=3, until=5, reason="gone", kind="retention")
    for one, two in ((short, long), (long, short)):
        whole = merge_flow(share("a", leader(losses=(one, other))), {"b": share("b", follower(losses=(two,)))})
        assert [(loss.partition, loss.until) for loss in whole.losses] == [(0, 5), (1, 25)]
        accepted = (replace(one, until=25, accepted=True),)
        whole = merge_flow(share("a", leader(losses=(two,))), {"b": share("b", follower(losses=accepted))})
        assert whole.losses == accepted, "node a has not read it yet"


def test_draining_node_is_visible() -> None:
    leaving = share("b", follower(topic("users"), tasks=(), state=TaskState.DRAINING))
    assert merge_flow(share("a", leader(topic("orders", copied(0, "a")), tasks=())), {"b": leaving}).state is (
        TaskState.DRAINING
    )


def test_what_limits_the_flow_is_that_of_all_partitions() -> None:
    """(G) A node alone sees only its own; one that does not answer, or whose lanes do not, says nothing."""

    def waited(on: str, seconds: float) -> RecentWaits:
        return RecentWaits(waits=(Wait(on=on, seconds=seconds),), behind=seconds)

    own = share("a", leader(last_minute=waited("source", 10.0)))
    other = share("b", follower(last_minute=waited("target-quota", 30.0)))
    merged = merge_flow(own, {"b": other})
    assert (
        merged.limited_by == "limited by the target: quota, 75 % of the last 30 s; by the source: fetch responses, 25 %"
    )
    assert merged.last_minute == RecentWaits(
        waits=(Wait(on="source", seconds=10.0), Wait(on="target-quota", seconds=30.0)), behind=30.0
    )
    silent = merge_flow(own, {"b": "does not answer"})
    assert silent.limited_by == "limited by the source: fetch responses, 100 % of the last 10 s"
    assert merge_flow(A, {"b": B}).limited_by == "no data for the last minute"


def test_b_how_far_back_the_exact_offset_map_goes_is_known_to_the_leader() -> None:
    listed = replace(assigned_to(1, "b"), exact_from=70, exact_to_start=False)
    own = share("a", leader(topic("orders", copied(0, "a", exact_from=0, exact_to_start=True), listed)))
    merged = merge_flow(own, {"b": share("b", follower())})
    (orders,) = merged.topics
    assert [(one.exact_from, one.exact_to_start) for one in orders.partitions] == [(0, True), (70, False)]
    assert orders.partitions[1].position is not None
