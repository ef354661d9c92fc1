"""Letters are those of the invariants of `mm2.rest.shares`."""

from __future__ import annotations

import pytest

from mm2.core.lease import Loss, TaskState
from mm2.node.published import CoverageStatus, FlowStatus, PartitionStatus, TaskStatus
from mm2.rest.shapes import FlowShape, PartitionShape
from mm2.rest.shares import SHARE, Share, merged
from tests.contract.samples import flow, member, partition, task, topic

SOURCE_0, SOURCE_1, CHECKPOINT = "MirrorSourceConnector-0", "MirrorSourceConnector-1", "MirrorCheckpointConnector-0"
MEMBERS = (member("a", "http://a", SOURCE_0, leads=True), member("b", "http://b", SOURCE_1, CHECKPOINT))


def share(node: str, status: FlowStatus) -> Share:
    return Share(node=node, leads=status.is_leader, flow=FlowShape.of(status))


def copied(number: int, node: str, **changes: object) -> PartitionStatus:
    """A partition that ``node`` copies in the slot of the same number."""
    return partition(number, node=node, slot=number, **changes)


def books(number: int, node: str) -> PartitionStatus:
    """A partition that ``node`` copies, as the leader's books have it."""
    return partition(number, node=node, slot=number, state=TaskState.WAITING, position=-1, end_offset=-1, lag_records=0)


def leader(*topics: object, **changes: object) -> FlowStatus:
    """Node a, which leads, copies orders-0, and knows that b copies orders-1."""
    tasks = (
        task(id=SOURCE_0, node="a"),
        task(id=SOURCE_1, node="b", state=TaskState.WAITING),
        task(id=CHECKPOINT, node="b", kind="checkpoint", state=TaskState.WAITING),
    )
    of_leader = {"leader": "a", "members": MEMBERS, "tasks": tasks, **changes}
    return flow(*(topics or (topic("orders", copied(0, "a"), books(1, "b")),)), **of_leader)  # type: ignore[arg-type]


def follower(*topics: object, **changes: object) -> FlowStatus:
    """Node b, which copies orders-1."""
    tasks: tuple[TaskStatus, ...] = (task(id=SOURCE_1, node="b"), task(id=CHECKPOINT, node="b", kind="checkpoint"))
    of_follower = {"leader": "a", "is_leader": False, "members": MEMBERS, "tasks": tasks, **changes}
    found = topics or (topic("orders", copied(1, "b", position=500, end_offset=500, lag_records=0)),)
    return flow(*found, **of_follower)  # type: ignore[arg-type]


A, B = share("a", leader()), share("b", follower())


def partitions(shape: FlowShape) -> dict[tuple[str, int], PartitionShape]:
    return {(one.topic, part.partition): part for one in shape.topics for part in one.partitions}


def test_a_flow_of_one_node_is_what_that_node_says() -> None:
    alone = share("a", flow())
    assert merged(alone, {}) is alone.flow


@pytest.mark.parametrize("own", ["a", "b"])
def test_every_node_shows_the_same_whole(own: str) -> None:
    whole = merged(A, {"b": B}) if own == "a" else merged(B, {"a": A})
    assert whole == merged(A, {"b": B})
    assert (whole.state, whole.leader, whole.epoch, whole.reasons) == (TaskState.RUNNING, "a", 7, ())
    assert [(one.id, one.node, one.state) for one in whole.tasks] == [
        (SOURCE_0, "a", TaskState.RUNNING),
        (SOURCE_1, "b", TaskState.RUNNING),
        (CHECKPOINT, "b", TaskState.RUNNING),
    ]
    (orders,) = whole.topics
    assert [(one.partition, one.node, one.slot, one.position) for one in orders.partitions] == [
        (0, "a", 0, 90),
        (1, "b", 1, 500),
    ]
    assert orders.state is TaskState.RUNNING
    assert [one.node for one in whole.members] == ["a", "b"]


def test_a_share_travels_as_json() -> None:
    assert SHARE.validate_json(SHARE.dump_json(A)) == A


def test_a_share_of_an_earlier_release_lacks_what_is_new_and_has_what_is_gone() -> None:
    fields = SHARE.dump_python(B, mode="json")
    for name in ("members", "paused", "coverage"):
        del fields["flow"][name]
    fields["flow"]["speed"] = 5
    assert SHARE.validate_python(fields).flow.members == ()


def test_b_a_leader_s_old_word_about_others_does_not_count() -> None:
    old = leader(topic("orders", copied(0, "a"), copied(1, "b", state=TaskState.FAILED, error="it was too large")))
    whole = merged(share("a", old), {"b": B})
    assert partitions(whole)["orders", 1].error is None
    assert whole.state is TaskState.RUNNING


@pytest.mark.parametrize("state", [TaskState.WAITING, TaskState.FAILED])
def test_b_a_flow_is_not_in_a_state_that_only_the_leader_s_books_have(state: TaskState) -> None:
    old = share("a", leader(tasks=(task(id=SOURCE_0, node="a"), task(id=SOURCE_1, node="b", state=state)), state=state))
    assert merged(old, {"b": B}).state is TaskState.RUNNING
    troubled = share("a", leader(topic("orders", copied(0, "a")), tasks=(task(id=SOURCE_0, node="a"),), state=state))
    assert merged(troubled, {"b": B}).state is state


def test_b_on_its_way_it_is_with_whom_it_still_runs() -> None:
    """The leader gives orders-1 to a; b has not stopped yet."""
    moving = leader(topic("orders", copied(0, "a"), books(1, "a")))
    whole = merged(share("a", moving), {"b": share("b", follower())})
    assert (partitions(whole)["orders", 1].node, partitions(whole)["orders", 1].position) == ("b", 500)
    moving = leader(topic("orders", copied(0, "a"), books(1, "")), tasks=(task(id=SOURCE_1, node=""),))
    whole = merged(share("a", moving), {"b": B})
    assert (partitions(whole)["orders", 1].node, partitions(whole)["orders", 1].position) == ("b", 500)
    assert [(one.id, one.node) for one in whole.tasks] == [(SOURCE_1, "b")]


def test_b_of_two_that_run_it_the_one_that_should_has_the_word() -> None:
    third = share("c", follower(topic("orders", copied(1, "c", position=3)), tasks=(task(id=SOURCE_1, node="c"),)))
    whole = merged(A, {"b": B, "c": third})
    assert partitions(whole)["orders", 1].node == "b"
    assert [one.node for one in whole.tasks if one.id == SOURCE_1] == ["b"]


def test_b_of_two_that_run_it_and_should_not_the_one_where_it_runs() -> None:
    books_say_nobody = leader(topic("orders", books(1, "")), tasks=(task(id=SOURCE_1, node=""),))
    ended = share("b", follower(topic("orders", copied(1, "b", state=TaskState.STOPPED))))
    third = share("c", follower(topic("orders", copied(1, "c")), tasks=(task(id=SOURCE_1, node="c"),)))
    whole = merged(share("a", books_say_nobody), {"b": ended, "c": third})
    assert partitions(whole)["orders", 1].node == "c"


def test_nobody_runs_it() -> None:
    """b was asked, and has not taken it yet: the leader's books are all there is."""
    whole = merged(A, {"b": share("b", follower(topic("users"), tasks=()))})
    assert (partitions(whole)["orders", 1].state, partitions(whole)["orders", 1].node) == (TaskState.WAITING, "b")
    assert whole.state is TaskState.WAITING


def test_a_what_the_leader_does_not_list_is_not_there() -> None:
    """A topic that was deleted, a task that is too many: coverage tells of them."""
    more = follower(
        topic("orders", copied(1, "b"), copied(2, "b")),
        topic("gone", copied(0, "b")),
        tasks=(task(id="MirrorSourceConnector-9", node="b"),),
    )
    whole = merged(A, {"b": share("b", more)})
    assert list(partitions(whole)) == [("orders", 0), ("orders", 1)]
    assert "MirrorSourceConnector-9" not in [one.id for one in whole.tasks]


def test_c_a_node_that_cannot_be_asked() -> None:
    stale = leader(topic("orders", copied(0, "a"), copied(1, "b", position=40, error="slow", lag_seconds=9.0)))
    whole = merged(share("a", stale), {"b": "http://b did not answer within 2 s"})
    unseen = partitions(whole)["orders", 1]
    assert (unseen.state, unseen.position, unseen.end_offset, unseen.lag_records) == (TaskState.WAITING, -1, -1, -1)
    assert (unseen.error, unseen.lag_seconds, unseen.node, unseen.slot) == (None, 0.0, "b", 1)
    assert [(one.id, one.state) for one in whole.tasks] == [
        (SOURCE_0, TaskState.RUNNING),
        (SOURCE_1, TaskState.WAITING),
        (CHECKPOINT, TaskState.WAITING),
    ]
    assert whole.state is TaskState.WAITING
    assert whole.reasons == ("what node b runs cannot be seen from here: http://b did not answer within 2 s",)


def test_c_the_leader_cannot_be_asked() -> None:
    """What it runs is known from the members only, and its topics are not known."""
    ends = "http://a is not reachable"
    whole = merged(B, {"a": ends})
    assert (whole.leader, whole.epoch) == ("a", 7)
    assert [(one.id, one.kind, one.node, one.state) for one in whole.tasks] == [
        (CHECKPOINT, "checkpoint", "b", TaskState.RUNNING),
        (SOURCE_0, "source", "a", TaskState.WAITING),
        (SOURCE_1, "source", "b", TaskState.RUNNING),
    ]
    assert list(partitions(whole)) == [("orders", 1)]
    assert whole.state is TaskState.WAITING
    strange = follower(members=(member("a", "", "MirrorSomethingConnector-0"), MEMBERS[1]))
    whole = merged(share("b", strange), {"a": ends})
    assert [one.kind for one in whole.tasks if one.node == "a"] == ["unknown"]


def test_a_without_a_leader_everything_that_somebody_shows_is_there_once() -> None:
    third = follower(
        topic("users", copied(0, "c")),
        topic(
            "orders", copied(0, "c", position=7), books(1, "b"), error="remote topic is gone", state=TaskState.FAILED
        ),
        tasks=(task(id=SOURCE_0, node="c"),),
        leader=None,
    )
    whole = merged(B, {"c": share("c", third), "a": "it is away"})
    assert [(one.topic, len(one.partitions)) for one in whole.topics] == [("orders", 2), ("users", 1)]
    assert partitions(whole)["orders", 0].position == 7
    assert partitions(whole)["orders", 1].position == 500
    assert (whole.topics[0].state, whole.topics[0].error) == (TaskState.FAILED, "remote topic is gone")
    assert whole.state is TaskState.FAILED


def test_d_the_leader_of_the_newest_epoch_has_the_word_about_the_flow() -> None:
    counts = {"tasks": CoverageStatus(covered=3)}
    zombie = share("a", leader(epoch=7, paused=("users",), members=MEMBERS[:1]))
    new = share("b", leader(epoch=8, leader="b", coverage=counts, paused=("orders",), members=MEMBERS[1:]))
    for whole in (merged(zombie, {"b": new}), merged(new, {"a": zombie})):
        assert (whole.leader, whole.epoch, whole.paused) == ("b", 8, ("orders",))
        assert whole.coverage["tasks"].covered == 3
        assert [one.node for one in whole.members] == ["b"]


def test_d_while_the_leader_of_the_newest_epoch_is_away_its_epoch_counts() -> None:
    zombie = share("a", leader(epoch=7))
    whole = merged(share("b", follower(epoch=8, leader="c")), {"a": zombie, "c": "away"})
    assert (whole.leader, whole.epoch) == ("c", 8)


def test_whether_the_flow_is_enabled_says_the_own_file() -> None:
    assert merged(share("b", follower(enabled=False)), {"a": A}).enabled is False


def test_reasons_are_told_once_and_with_their_nodes() -> None:
    """Those that say what is wrong with a task, topic or partition have their place there already."""
    first = share("a", leader(reasons=("cluster A is slow",)))
    failed = topic(
        "orders", copied(1, "b", state=TaskState.FAILED, error="offset 17: too large"), state=TaskState.FAILED
    )
    second = share("b", follower(failed, reasons=("cluster A is slow", "no room in Spark", "offset 17: too large")))
    third = share("c", follower(topic("users"), tasks=(), reasons=("no room in Spark",)))
    whole = merged(second, {"a": first, "c": third, "d": "it is away"})
    assert whole.reasons == (
        "cluster A is slow",
        "on b, c: no room in Spark",
        "what node d runs cannot be seen from here: it is away",
    )
    assert whole.state is TaskState.FAILED


def test_a_loss_that_several_tell_is_told_once_and_as_far_as_it_got() -> None:
    short = Loss(topic="orders", partition=1, first=10, until=15, reason="retention")
    long = Loss(topic="orders", partition=1, first=10, until=25, reason="retention")
    other = Loss(topic="orders", partition=0, first=3, until=5, reason="retention")
    for one, two in ((short, long), (long, short)):
        whole = merged(share("a", leader(losses=(one, other))), {"b": share("b", follower(losses=(two,)))})
        assert [(loss.partition, loss.until) for loss in whole.losses] == [(0, 5), (1, 25)]


def test_a_node_that_drains_shows() -> None:
    leaving = share("b", follower(topic("users"), tasks=(), state=TaskState.DRAINING))
    assert merged(share("a", leader(topic("orders", copied(0, "a")), tasks=())), {"b": leaving}).state is (
        TaskState.DRAINING
    )
